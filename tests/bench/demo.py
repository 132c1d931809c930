"""A demo of its own for a measurement, in a temporary folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
START_SECONDS = 90


class Demo:
    """`with Demo() as demo:` runs the program of `make demo`; `seconds` is how long it took to be ready."""

    def __init__(self, directory: Path | None = None) -> None:
        self.given = directory
        self.directory = directory or Path(tempfile.mkdtemp(prefix="maas-demo-"))
        self.seconds = 0.0

    def __enter__(self) -> Self:
        start = time.monotonic()
        self._log = (self.directory.parent / f"{self.directory.name}.log").open("wb")
        command = [sys.executable, "-m", "deploy.local.demo", "--dir", str(self.directory)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL)
        try:
            self._await(start)
        except BaseException:
            self.__exit__()
            raise
        self.seconds = time.monotonic() - start
        return self

    def _await(self, start: float) -> None:
        while time.monotonic() - start < START_SECONDS:
            if self.process.poll() is not None:
                raise RuntimeError(Path(self._log.name).read_text(errors="replace")[-3000:])
            if (self.directory / "env").exists() and self._ready():
                return
            time.sleep(0.1)
        raise RuntimeError("not ready in time:\n" + Path(self._log.name).read_text(errors="replace")[-3000:])

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return answer.status == 200 and b"Who can log in" in Path(self._log.name).read_bytes()
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._log.close()
        if self.given is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def env(self) -> dict[str, str]:
        """The portal's environment, for management commands of this demo."""
        lines = (self.directory / "env").read_text().splitlines()
        own = {key: value.strip("'") for key, _, value in (line.partition("=") for line in lines)}
        return {**os.environ, **own}

    @property
    def url(self) -> str:
        return self.env["MAAS_BASE_URL"]

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "cluster" / "admin.kubeconfig"

    def manage(self, *command: str) -> str:
        result = subprocess.run(
            [sys.executable, "manage.py", *command], cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise RuntimeError(result.stderr[-2000:])
        return result.stdout

    def memory(self) -> dict[str, int]:
        """Bytes of PSS by program, and `total`."""
        command = [sys.executable, "-m", "deploy.local.memory", "--dir", str(self.directory), "--json"]
        return dict(json.loads(subprocess.check_output(command, cwd=ROOT)))
