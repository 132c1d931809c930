"""Processes of a demo that outlived it.

Found by the mark in their environment, or by living in the nodes' folder: the shims of users' containers outlive even
the node agent and get an environment of their own. What they started counts with them.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from deploy.local.stack import MARK


def find(root: Path, spare: int | None = None) -> list[psutil.Process]:
    """Every process marked as belonging to the demo in `root`, and their descendants.

    Never this one, nor the process `spare` and its descendants.
    """
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(root) or _lives_in(root / "nodes", process.pid):
                found |= _family(process)
        except psutil.Error:
            continue  # gone, or somebody else's
    spared = _family(psutil.Process(spare)) if spare and psutil.pid_exists(spare) else {}
    return [process for pid, process in found.items() if pid not in spared and pid != os.getpid()]


def end(root: Path, seconds: float, spare: int | None = None) -> int:
    """Ends them: politely, then, after `seconds`, not. Gives how many there were."""
    processes = find(root, spare)
    for process in processes:
        _signal(process, "terminate")
    _, stubborn = psutil.wait_procs(processes, timeout=seconds)
    for process in {*stubborn, *find(root, spare)}:
        _signal(process, "kill")
    return len(processes)


def _lives_in(folder: Path, pid: int) -> bool:
    """Whether it works there, or its error output goes there."""
    for link in ("cwd", "fd/2"):
        try:
            if Path(f"/proc/{pid}/{link}").readlink().is_relative_to(folder):
                return True
        except OSError:
            continue
    return False


def _family(process: psutil.Process) -> dict[int, psutil.Process]:
    return {each.pid: each for each in (process, *process.children(recursive=True))}


def _signal(process: psutil.Process, method: str) -> None:
    try:
        getattr(process, method)()
    except psutil.Error:
        pass  # it has ended meanwhile
