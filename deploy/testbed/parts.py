"""What runs beside etcd and kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.testbed.crds import PROJECTS

FLEET = Path(__file__).with_name("fleet.json")


@dataclass(frozen=True)
class Parts:
    """`fleet`: a file of nodes for KWOK to play, None for no KWOK. `crds`: names in crds.PROJECTS. `volcano`: a folder
    with Volcano's own programs (volcano.py). `flags`: more of them, by program."""

    controllers: bool = True
    scheduler: bool = True
    fleet: Path | None = FLEET
    crds: tuple[str, ...] = tuple(PROJECTS)
    volcano: Path | None = None
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


SERVER_ONLY = Parts(scheduler=False, fleet=None)
"""etcd, kube-apiserver and the controllers: for rooms of the small cluster that schedule and play nodes themselves."""
