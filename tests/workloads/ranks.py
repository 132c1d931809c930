"""Ranks of charlm as processes, the way a cluster runs them."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] \[(INFO|WARN|ERROR)\] \[harbour\] "
    r"\[Rank-(?P<rank>\d+)\] \[Step-(?P<step>\d+)\] \[(?P<message>.*)\]"
)
LOSS = re.compile(r"Loss: (\S+), LR: ")


class Ranks:
    """The ranks of one attempt, each with its output in a file, in a folder that is not the repository."""

    def __init__(self, folder: Path, size: int, *options: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("VC_", "MAAS_"))}
        environ |= {"PYTHONPATH": str(ROOT), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
        environ |= {"MASTER_PORT": str(free_port()), "MAAS_JOB_NAME": "harbour"}
        self.processes = []
        for rank in range(size):
            with (folder / f"{rank}.log").open("w") as out:
                command = [sys.executable, "-m", "deploy.workloads.charlm", "--log-every", "1", *options]
                self.processes.append(
                    subprocess.Popen(command, cwd=folder, env=environ | {"RANK": str(rank)}, stdout=out, stderr=out)
                )

    def wait(self, seconds: float = 20) -> list[int]:
        end = time.monotonic() + seconds
        return [process.wait(max(0.1, end - time.monotonic())) for process in self.processes]

    def text(self, rank: int = 0) -> str:
        return (self.folder / f"{rank}.log").read_text()

    def losses(self, rank: int = 0) -> dict[int, str]:
        lines = [LINE.fullmatch(line) for line in self.text(rank).splitlines()]
        assert all(lines), self.text(rank)
        return {int(line["step"]): found[1] for line in lines if (found := LOSS.match(line["message"]))}

    def reach(self, step: int, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while f"[Step-{step}]" not in self.text():
            assert time.monotonic() < end, self.text()
            assert None in [process.poll() for process in self.processes], self.text()
            time.sleep(0.01)

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def parameters(folder: Path) -> np.ndarray:
    """Of a checkpoint, read as a stranger would by its manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    rows = [np.load(folder / shard["file"]) for shard in manifest["shards"]]
    for shard in manifest["shards"]:
        assert hashlib.sha256((folder / shard["file"]).read_bytes()).hexdigest() == shard["sha256"]
    return np.concatenate(rows, axis=1)[0]
