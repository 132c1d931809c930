"""What the agent remembers, on disk: it can be killed at any moment and goes on from here.

DIR/pods/UID/pod.json                      the pod as accepted: address, devices, whether it has its slots
DIR/pods/UID/hosts, volumes/NAME
DIR/pods/UID/containers/NAME/NUMBER/       one attempt; written by its shim (see `shim`)
DIR/volumes/NAMESPACE/CLAIM                persistent volume claims
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apps.localcluster.nodeagent.shim import now, write_whole

FILES = "files-"
KEPT_ATTEMPTS = 2  # the current one and the one before it, for `logs --previous`


@dataclass(frozen=True)
class PodRecord:
    """One accepted pod. `accepted` is RFC 3339; `grace` in seconds; `size` the slots it takes once `granted`."""

    uid: str
    namespace: str
    name: str
    node: str
    ip: str
    accepted: str
    grace: int
    devices: tuple[int, ...] = ()
    size: int = 1
    granted: bool = False


@dataclass(frozen=True)
class Attempt:
    """One run of a container as seen on disk. `streak`: short runs before it in a row, for the back-off."""

    folder: Path
    number: int
    alive: bool
    streak: int
    started: dict[str, Any] | None
    ended: dict[str, Any] | None

    @property
    def running(self) -> bool:
        return self.started is not None and self.ended is None

    @property
    def shim(self) -> int:
        return int(self.started["shim"]) if self.started else 0


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def _held(path: Path) -> bool:
    """Whether a living shim holds this lock."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@dataclass(frozen=True)
class PodFolder:
    """The folder of one pod."""

    path: Path

    def read(self) -> PodRecord | None:
        document = _read(self.path / "pod.json")
        return PodRecord(**{**document, "devices": tuple(document["devices"])}) if document else None

    def write(self, record: PodRecord) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(self.path / "pod.json", asdict(record))

    def attempts(self, container: str) -> list[Attempt]:
        """Attempts of a container, oldest first; no more than the kept ones."""
        folder = self.path / "containers" / container
        try:
            numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        except FileNotFoundError:
            return []
        return [attempt(folder / str(number)) for number in numbers]

    def containers(self) -> list[str]:
        folder = self.path / "containers"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def living(self) -> list[Attempt]:
        """Attempts with a shim that has not yet ended."""
        found = [self.attempts(name)[-1:] for name in self.containers()]
        return [last for part in found for last in part if last.alive and last.ended is None]

    def new_attempt(self, container: str, number: int, streak: int) -> Path:
        """The folder for an attempt; also clears what is too old and the files of the one before."""
        folder = self.path / "containers" / container / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        for old in self.attempts(container):
            if old.number < number:
                discard_files(old.folder)
            if old.number <= number - KEPT_ATTEMPTS:
                shutil.rmtree(old.folder, ignore_errors=True)
        write_whole(folder / "plan.json", {"streak": streak})
        return folder

    def unmount(self) -> None:
        """Remove the volumes of a pod that has ended, as a kubelet does: its secrets are nobody's any more. Files of
        claims lie elsewhere."""
        shutil.rmtree(self.path / "volumes", ignore_errors=True)

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def attempt(folder: Path) -> Attempt:
    """Read one attempt. A run whose shim is gone without a word is written down as lost."""
    alive = _held(folder / "lock")  # first: the shim writes its last word before it lets go
    started, ended = _read(folder / "started.json"), _read(folder / "exit.json")
    if started and not ended and not alive:
        message = "The container could not be located: its supervising process is gone"
        ended = {"code": 137, "reason": "ContainerStatusUnknown", "message": message, "started": started["started"]}
        ended["ended"] = now()
        write_whole(folder / "exit.json", ended)
    plan = _read(folder / "plan.json") or {}
    return Attempt(folder, int(folder.name), alive, plan.get("streak", 0), started, ended)


def discard_files(folder: Path) -> None:
    """Remove what a container wrote outside its volumes."""
    for path in folder.glob(f"{FILES}*"):
        shutil.rmtree(path, ignore_errors=True)


def ask_to_stop(target: Attempt, grace: float) -> None:
    """Tell a shim to end its container within `grace` seconds. Asking again can only shorten the time."""
    path = target.folder / "stop.json"
    deadline = time.monotonic() + grace
    before = _read(path)
    if not before or before["deadline"] > deadline + 0.5:
        write_whole(path, {"deadline": deadline})
    # Signalled each time: an agent may have died between the file and the signal, and the shim takes it once.
    if not target.shim:
        return  # it looks for the file once it has started
    try:
        file = os.pidfd_open(target.shim)
    except ProcessLookupError:
        return
    try:
        # The lock says that the shim lives; so the number is still its own.
        if _held(target.folder / "lock"):
            signal.pidfd_send_signal(file, signal.SIGTERM)
    except ProcessLookupError:
        pass
    finally:
        os.close(file)


def pods(directory: Path) -> list[PodFolder]:
    """All pods with a folder."""
    folder = directory / "pods"
    return [PodFolder(path) for path in sorted(folder.iterdir())] if folder.exists() else []
