"""Processes of a demo that outlived it: found by the mark in their environment, with everything they started."""

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
            if process.environ().get(MARK) == str(root):
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


def _family(process: psutil.Process) -> dict[int, psutil.Process]:
    return {each.pid: each for each in (process, *process.children(recursive=True))}


def _signal(process: psutil.Process, method: str) -> None:
    try:
        getattr(process, method)()
    except psutil.Error:
        pass  # it has ended meanwhile
