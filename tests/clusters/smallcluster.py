"""The small cluster's API server as a process of its own, for tests that stop and start it."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from apps.adapters.errors import OutsideError
from apps.adapters.kubernetes import Endpoint, KubeApi


@dataclass
class SmallCluster:
    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    api: KubeApi = field(init=False)

    def start(self) -> SmallCluster:
        if not self.port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "apps.localcluster.apiserver",
            "--dir",
            str(self.folder),
            "--port",
            str(self.port),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.api = KubeApi(self.endpoint)
                self.api.version()
                return self
            except (OSError, OutsideError):
                time.sleep(0.1)
        raise TimeoutError("The API server did not start.")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    @property
    def endpoint(self) -> Endpoint:
        document = yaml.safe_load((self.folder / "admin.kubeconfig").read_text())
        cluster: Any = document["clusters"][0]["cluster"]
        token = document["users"][0]["user"]["token"]
        ca_pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return Endpoint(cluster["server"], ca_pem, lambda fresh=False: token)
