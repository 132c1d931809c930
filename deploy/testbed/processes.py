"""Programs as children of this process, each with a log of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from deploy.local.home import Home
from deploy.local.program import Failed, NotReady, Program, dying_with_parent, tail, wait_until

PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG")
START_SECONDS = 60


class Processes:
    """They end when the thread that started them ends, however it does: start them in one that stays."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.running: dict[str, tuple[Program, subprocess.Popen[bytes]]] = {}

    def log(self, name: str) -> Path:
        return self.home.root / "log" / f"{name}.log"

    def start(self, program: Program) -> None:
        """Returns when it answers. Raises Failed with the end of its log."""
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | dict(program.env)
        with self.log(program.name).open("ab") as log:
            process = subprocess.Popen(
                dying_with_parent("TERM", program.command),
                env=env,
                cwd=self.home.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the one that started us
            )
        self.running[program.name] = program, process

        def alive() -> None:
            if process.poll() is not None:
                raise Failed(f"{program.label} ended with exit code {process.returncode}: {self._end(program)}")

        try:
            wait_until(program.check or alive, START_SECONDS, still=alive)
        except NotReady as error:
            raise Failed(f"{program.label} did not answer ({error}): {self._end(program)}") from error

    def kill(self, name: str) -> Program:
        """kill -9. Gives what can be started again."""
        program, process = self.running.pop(name)
        process.kill()
        process.wait()
        return program

    def stop(self) -> None:
        """Ends them, the last one started first: a client is gone before its server."""
        while self.running:
            _, (program, process) = self.running.popitem()
            process.terminate()
            try:
                process.wait(timeout=program.stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _end(self, program: Program) -> str:
        return f"see {self.log(program.name)}\n{tail(self.log(program.name))}"
