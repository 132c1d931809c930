"""One process in the background whose children a control plane's programs are: it ends, and they do."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import psutil

from deploy.local.memory import pss
from deploy.local.program import Failed, NotReady, tail, wait_until
from deploy.local.stack import TREE
from deploy.testbed.parts import Parts
from deploy.testbed.plane import control_plane

COMMAND = "keep"
STOP = (signal.SIGTERM, signal.SIGINT)
UP_SECONDS = 1800
"""Nothing may be built yet."""
DOWN_SECONDS = 30


def begin(directory: Path, options: list[str]) -> Path:
    """Starts it with the options of `up`, and waits until the control plane answers. Gives the kubeconfig.

    Raises Failed.
    """
    if _holder(directory):
        raise Failed(f"it runs already; KUBECONFIG={directory / 'kubeconfig'}")
    _ready(directory).unlink(missing_ok=True)
    (directory / "log").mkdir(parents=True, exist_ok=True)
    log = directory / "log/keeper.log"
    command = (sys.executable, "-m", "deploy.testbed", COMMAND, *options)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=TREE,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def up() -> None:
        if not _ready(directory).exists():
            raise NotReady("not up yet")

    def alive() -> None:
        if process.poll() is not None:
            raise Failed(f"it does not come up:\n{tail(log)}")

    wait_until(up, UP_SECONDS, still=alive)
    sys.stderr.write(log.read_text())
    return directory / "kubeconfig"


def keep(directory: Path, parts: Parts) -> None:
    """Runs a control plane until SIGTERM or Ctrl-C. Raises Missing, Failed."""
    with _claim(directory):
        for number in STOP:
            signal.signal(number, _leave)
        with control_plane(directory, parts) as plane:
            for name, why in plane.left_out.items():
                print(f"without {name}: {why}", file=sys.stderr, flush=True)
            _ready(directory).touch()
            while True:
                signal.pause()


def _leave(*_: object) -> None:
    for number in STOP:
        signal.signal(number, signal.SIG_IGN)  # the end is not to be cut off
    sys.exit()


def end(directory: Path) -> None:
    """Ends the one in this folder, if there is one. Raises Failed."""
    pid = _holder(directory)
    if not pid:
        return
    os.kill(pid, signal.SIGTERM)

    def gone() -> None:
        if _holder(directory):
            raise NotReady(f"process {pid} is still there")

    try:
        wait_until(gone, DOWN_SECONDS)
    except NotReady as error:
        raise Failed(str(error)) from error


def show(directory: Path) -> int:
    """Prints what runs and what it takes; 1 where nothing does."""
    pid = _holder(directory)
    if not pid:
        print(f"nothing runs in {directory}")
        return 1
    for child in psutil.Process(pid).children():
        print(f"{child.name():24} {child.pid:8} {pss(child.pid) / 2**20:7.0f} MiB")
    print(f"KUBECONFIG={directory / 'kubeconfig'}")
    return 0


def _ready(directory: Path) -> Path:
    return directory / "run/up"


def _claim(directory: Path) -> IO[str]:
    """A lock that holds our process id for as long as we live. Raises Failed."""
    (directory / "run").mkdir(parents=True, exist_ok=True)
    lock = (directory / "run/keeper").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Failed(f"another one runs in {directory}") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _holder(directory: Path) -> int:
    """The process that holds the lock, 0 for none. A number that a dead one left behind counts for nothing."""
    try:
        with (directory / "run/keeper").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return 0
    except BlockingIOError:
        return int((directory / "run/keeper").read_text() or 0)
    return 0
