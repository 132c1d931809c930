"""What is common to everything that is started: a command, a check that it answers, and words for when it does not."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class Missing(RuntimeError):
    """Something this machine lacks; the text says what, and what to do."""


class NotReady(RuntimeError):
    """It does not answer (yet); the text says how it failed."""


class Failed(RuntimeError):
    """It ended, or never answered. The text is for a person: which, why, where to look."""


@dataclass(frozen=True)
class Program:
    """A process to keep running. `check` raises NotReady until it answers; None for one that answers nobody."""

    name: str
    label: str
    command: tuple[str, ...]
    check: Callable[[], None] | None
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    stop_seconds: int = 8


def wait_until(check: Callable[[], None], seconds: float, still: Callable[[], None] = lambda: None) -> None:
    """Calls `check` until it no longer raises NotReady; raises the last one after `seconds`.

    `still` may raise Failed to end the wait at once (the process has died).
    """
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        try:
            return check()
        except NotReady:
            still()
            if time.monotonic() > deadline:
                raise
        pause.wait(0.05)


def listening(port: int) -> Callable[[], None]:
    """A check that something accepts connections on 127.0.0.1:`port`."""

    def check() -> None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError as error:
            raise NotReady(f"127.0.0.1:{port}: {error}") from error

    return check


def installed(*names: str, folders: tuple[str, ...] = ()) -> list[Path]:
    """Every program of one of these names in PATH or in `folders`, in that order, without doubles."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *folders, "/usr/sbin", "/sbin"))
    found = (shutil.which(name, path=folder) for name in names for folder in path.split(os.pathsep) if folder)
    return list(dict.fromkeys(Path(each).resolve() for each in found if each))


def version_of(binary: Path, *arguments: str) -> tuple[int, ...]:
    """The first dotted number a program prints about itself, `(15, 8)`; `()` when it cannot be run."""
    try:
        answer = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\d+(?:\.\d+)+|\d+", answer.stdout)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def dying_with_parent(signal_name: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """The same command, ended by the kernel when the process that started it dies (where util-linux is installed)."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", signal_name, *command) if setpriv else command


def tail(path: Path, lines: int = 15) -> str:
    """The end of a log for a message; never raises."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 16_384))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (the log is empty)"
