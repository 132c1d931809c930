"""The portal's own account in the demo's cluster, made as an operator makes it: kubectl apply, kubectl create token."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.home import Home
from deploy.local.program import Failed

KUBECTL = Path(sys.executable).with_name("kubectl")
MANIFEST = Path(__file__).parents[1] / "cluster" / "portal.yaml"
NAMESPACE, ACCOUNT = "maas-portal", "portal"
TOKEN_LASTS = "720h"
"""Each start of the demo makes a new one."""


@dataclass(frozen=True)
class Access:
    """`administrator`: a kubeconfig of somebody who may make accounts. `name`: of the cluster, "" for its own."""

    home: Home
    administrator: Path
    name: str = ""

    @property
    def kubeconfig(self) -> Path:
        """The portal's own."""
        return self.home.secret_path("portal.kubeconfig")

    def grant(self) -> None:
        """Makes the account, or finds it, and writes its kubeconfig. Raises Failed with kubectl's words."""
        self._kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(MANIFEST))
        token = self._kubectl("create", "token", ACCOUNT, f"--namespace={NAMESPACE}", f"--duration={TOKEN_LASTS}")
        shown = json.loads(self._kubectl("config", "view", "--minify", "--flatten", "--output=json"))
        self.home.write_secret("portal.kubeconfig", json.dumps(self._document(shown, token.strip()), indent=1))

    def _document(self, shown: dict[str, Any], token: str) -> dict[str, Any]:
        (cluster,) = shown["clusters"]
        name = self.name or cluster["name"]
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster | {"name": name}],
            "users": [{"name": ACCOUNT, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": ACCOUNT}}],
            "current-context": name,
        }

    def _kubectl(self, *arguments: str) -> str:
        cache = self.home.root / "run" / "kubectl"
        command = (str(KUBECTL), f"--kubeconfig={self.administrator}", f"--cache-dir={cache}", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"`kubectl {' '.join(arguments[:2])}` on the cluster of {self.administrator}: {done.stderr}")
        return done.stdout
