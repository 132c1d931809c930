"""What this machine lets the agent do, found by trying."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The checkout: where `apps` and `deploy` lie."""


@dataclass(frozen=True)
class Machine:
    """`mounts`: containers get a file system of their own; `user_namespace`: by way of one; `reason`: why not."""

    mounts: bool
    user_namespace: bool = False
    reason: str = ""

    @property
    def switches_users(self) -> bool:
        """Whether runAsUser and fsGroup can be honoured."""
        return os.geteuid() == 0 and not self.user_namespace


def module(name: str) -> list[str]:
    """Command line of a standard-library-only module of this package: started without site packages, so fast."""
    return [sys.executable, "-ESs", "-m", f"apps.localcluster.nodeagent.{name}"]


def examine(allow_mounts: bool = True) -> Machine:
    """Try private mounts, as root or else in a user namespace."""
    if not allow_mounts:
        return Machine(False, reason="switched off by --no-mounts")
    reasons = []
    for user_namespace in (False, True):
        if not user_namespace and os.geteuid() != 0:
            continue
        command = module("sandbox") + ["--user-namespace"] * user_namespace
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode == 0:
            return Machine(True, user_namespace)
        reasons.append((done.stderr.strip().splitlines() or ["failed"])[-1])
    return Machine(False, reason="; ".join(reasons))
