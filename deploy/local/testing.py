"""For tests: servers for a run, so that a bare `pytest` works, and a whole demo to drive and to break."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.home import Home
from deploy.local.program import Failed, NotReady, wait_until
from deploy.local.stack import PORTAL_VARIABLES, TREE, Stack, answers
from deploy.local.supervise import Supervisor
from deploy.local.with_servers import servers

_running = ExitStack()


def serve(*names: str) -> None:
    """Makes sure that these servers (default: postgres, valkey) can be found in os.environ, until this process ends.

    tests/conftest.py calls it as it is imported. The first process starts them and puts their addresses into its
    environment; xdist's workers inherit it and start none. Raises Missing, Failed.
    """
    os.environ.update(_running.enter_context(servers(names or ("postgres", "valkey"))))


atexit.register(_running.close)


def clean_env() -> dict[str, str]:
    """The environment without the portal's variables: for a demo that shall not use the test run's own servers."""
    return {key: value for key, value in os.environ.items() if not key.startswith((*PORTAL_VARIABLES, "DJANGO_"))}


@dataclass(frozen=True)
class RunningDemo:
    home: Home

    @property
    def url(self) -> str:
        return Stack(self.home, {}).url

    @property
    def kubeconfig(self) -> Path:
        return Stack(self.home, {}).kubeconfig

    def people(self) -> dict[str, dict[str, str]]:
        """By username; each has `password`, `name`, `groups`."""
        return {each["username"]: each for each in json.loads(self.home.secret_path("people.json").read_text())}

    def env(self) -> dict[str, str]:
        """What a management command of this demo needs."""
        lines = (self.home.root / "env").read_text().splitlines()
        return {key: value.strip("'") for key, value in (line.split("=", 1) for line in lines)}

    def manage(self, *command: str) -> str:
        """Standard output of `manage.py COMMAND`. Raises subprocess.CalledProcessError."""
        env = {**os.environ, **self.env()}
        arguments = [sys.executable, "manage.py", *command]
        return subprocess.run(arguments, cwd=TREE, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

    def kill(self, name: str) -> int:
        """kill -9 of a program ("web", "worker", …), which supervisord then starts again. Gives the pid it had.

        0 where it is not running just now.
        """
        pid = int(Supervisor(self.home, TREE).states()[name]["pid"])
        if pid:
            os.kill(pid, signal.SIGKILL)
        return pid

    def await_portal(self, seconds: float = 60) -> None:
        """Raises NotReady with the reason that /readyz gives."""
        wait_until(answers(f"{self.url}/readyz", 200), seconds)


@contextmanager
def demo(directory: Path | None = None, *arguments: str) -> Iterator[RunningDemo]:
    """A demo of its own, in a new folder by default; `arguments` are deploy.local.demo's. Raises Failed."""
    with ExitStack() as stack:
        root = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="maas-portal-demo-")))
        output = root / "demo.log"
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "deploy.local.demo", "--dir", str(root), *arguments]
        with output.open("wb") as log:
            process = subprocess.Popen(
                command, cwd=TREE, env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        stack.callback(_end, process)

        def ready() -> None:
            facts = root / "run/demo.json"
            if not facts.exists() or "url" not in facts.read_text():
                raise NotReady(output.read_text())

        def alive() -> None:
            if process.poll() is not None:
                raise Failed(output.read_text())

        wait_until(ready, seconds=300, still=alive)
        yield RunningDemo(Home(root))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
