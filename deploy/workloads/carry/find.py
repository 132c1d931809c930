"""Finding the newest good checkpoint in a folder that belongs to somebody else and may change under our eyes.

Two layouts are known:

    step-00000200/manifest.json + shards    as deploy/workloads/charlm writes them: good when every digest is right
    checkpoint-200/…                        as Hugging Face's Trainer does: good once trainer_state.json, its last, is

Links are never followed: one could lead to the token of this very pod.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

CHUNK = 1 << 20
MANIFEST_LIMIT = 1 << 20
CHARLM = "charlm-checkpoint/1"
_STEP = re.compile(r"step-(\d{1,15})")
_TRAINER = re.compile(r"checkpoint-(\d{1,15})")
_TRAINING_ONLY = re.compile(r"optimizer\.(pt|bin)|scheduler\.pt|scaler\.pt|rng_state.*\.pth|.*\.tmp|\..*")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")


class NoCheckpoint(Exception):
    """`code` is "no-checkpoint" when there is none at all, "checkpoint-torn" when none is good; the text says more."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Changed(Exception):
    """Somebody wrote or removed a file while it was read; look again."""


class _NotGood(Exception):
    """This one is torn or damaged; an older one may do."""


@dataclass(frozen=True)
class File:
    """`path` is relative to the checkpoint's folder."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    step: int
    saved_at: str
    files: tuple[File, ...]

    def plan(self) -> dict[str, Any]:
        """What the portal is told will come."""
        files = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in self.files]
        return {"checkpoint": {"name": self.folder.name, "step": self.step, "saved_at": self.saved_at}, "files": files}


def newest(directory: Path, until_step: int | None = None) -> Checkpoint:
    """The newest good one, or the newest good one up to a step. Raises NoCheckpoint, Changed (look again)."""
    candidates = _candidates(directory)
    found = sorted((one for one in candidates if until_step is None or one[0] <= until_step), reverse=True)
    if not found:
        raise NoCheckpoint("no-checkpoint", "No folder step-N or checkpoint-N is in the job's volume.")
    faults = []
    for step, folder in found:
        try:
            read = _charlm if _STEP.fullmatch(folder.name) else _trainer
            return read(folder, step)
        except _NotGood as fault:
            faults.append(f"{folder.name}: {fault}")
        except FileNotFoundError as error:
            if not folder.exists():
                raise Changed(folder.name) from error  # pruned: a newer one is there
            faults.append(f"{folder.name}: {Path(str(error.filename)).name} is missing")
        except OSError as error:
            faults.append(f"{folder.name}: {error.strerror}")
    raise NoCheckpoint("checkpoint-torn", "; ".join(faults[:5]))


def opened(path: Path) -> BinaryIO:
    """A regular file, whatever lies beside it. Raises OSError; a link is one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _candidates(directory: Path) -> Iterator[tuple[int, Path]]:
    try:
        entries = list(os.scandir(directory))
    except OSError as error:
        raise NoCheckpoint("no-checkpoint", f"The volume cannot be read: {error.strerror}") from error
    for entry in entries:
        match = _STEP.fullmatch(entry.name) or _TRAINER.fullmatch(entry.name)
        if match and entry.is_dir(follow_symlinks=False):
            yield int(match[1]), Path(entry.path)


def _charlm(folder: Path, step: int) -> Checkpoint:
    with opened(folder / "manifest.json") as file:
        raw = file.read(MANIFEST_LIMIT + 1)
    try:
        manifest = json.loads(raw)
        shards = [(str(shard["file"]), str(shard["sha256"])) for shard in manifest["shards"]]
        good = manifest["format"] == CHARLM and manifest["step"] == step and bool(shards)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _NotGood("its manifest cannot be read") from error
    if not good:
        raise _NotGood("its manifest is not of this format and step")
    files = [File("manifest.json", len(raw), hashlib.sha256(raw).hexdigest())]
    for name, digest in shards:
        if not _PLAIN.fullmatch(name):
            raise _NotGood("its manifest names a file elsewhere")
        files.append(_hashed(folder, name))
        if files[-1].sha256 != digest:
            raise _NotGood(f"{name} is not what was written")
    saved_at = manifest.get("saved_at")
    return Checkpoint(folder, step, saved_at if isinstance(saved_at, str) else "", tuple(files))


def _trainer(folder: Path, step: int) -> Checkpoint:
    state = folder / "trainer_state.json"
    if not state.is_file():
        raise _NotGood("trainer_state.json is not there yet")
    paths = [
        str(Path(root, name).relative_to(folder))
        for root, _folders, names in os.walk(folder)
        for name in names
        if not _TRAINING_ONLY.fullmatch(name) and not Path(root, name).is_symlink()
    ]
    files = tuple(_hashed(folder, path) for path in sorted(paths))
    return Checkpoint(folder, step, "", files)


def _hashed(folder: Path, path: str) -> File:
    digest, size = hashlib.sha256(), 0
    with opened(folder / path) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return File(path, size, digest.hexdigest())
