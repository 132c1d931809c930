"""The small cluster for tests that need a live one: real processes on loopback, in a temporary folder."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from deploy.local.program import dying_with_parent
from tests.ports import free_port

ROOT = Path(__file__).parents[1]


@dataclass
class SmallCluster:
    """Rooms of the small cluster by name; each can be killed and started again on the same state."""

    directory: Path
    port: int
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    controllers: bool = True

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "api" / "admin.kubeconfig"

    @property
    def server(self) -> str:
        return str(self._document["clusters"][0]["cluster"]["server"])

    @property
    def token(self) -> str:
        return str(self._document["users"][0]["user"]["token"])

    @property
    def ca_pem(self) -> str:
        return base64.b64decode(self._document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()

    @property
    def _document(self) -> dict:  # type: ignore[type-arg]
        return yaml.safe_load(self.kubeconfig.read_text())

    def start(self, room: str) -> None:
        arguments = {
            "apiserver": ["--dir", str(self.directory / "api"), "--port", str(self.port)]
            + ([] if self.controllers else ["--no-controllers"]),
            "volcano": ["--kubeconfig", str(self.kubeconfig)],
            "nodeagent": [
                "--kubeconfig", str(self.kubeconfig), "--fleet", str(ROOT / "deploy/demo/fleet.json"),
                "--dir", str(self.directory / "nodes"), "--client-ca", str(self.directory / "api/ca.crt"),
            ],
        }[room]  # fmt: skip
        log = (self.directory / f"{room}.log").open("ab")
        command = dying_with_parent("TERM", (sys.executable, "-m", f"apps.localcluster.{room}", *arguments))
        self.running[room] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if room == "apiserver":
            self._await_kubeconfig()

    def _await_kubeconfig(self) -> None:
        for _ in range(200):
            if self.kubeconfig.exists():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            time.sleep(0.05)
        raise RuntimeError((self.directory / "apiserver.log").read_text()[-2000:])

    def kill(self, room: str) -> None:
        process = self.running.pop(room)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        self.running.clear()


@contextmanager
def small_cluster(directory: Path, *rooms: str, controllers: bool = True) -> Iterator[SmallCluster]:
    """A small cluster with these rooms beside its API server, until the block ends."""
    cluster = SmallCluster(directory, free_port(), controllers=controllers)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        for room in ("apiserver", *rooms):
            cluster.start(room)
        yield cluster
    finally:
        cluster.stop()
