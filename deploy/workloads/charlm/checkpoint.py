"""Sharded checkpoints that are whole or do not count.

    DIR/step-00000200/shard-0-of-2.npy   float64, shape (2, n): parameters and velocity of a slice of the flat vector
    DIR/step-00000200/shard-1-of-2.npy
    DIR/step-00000200/manifest.json      written last, by rank 0, when all shards are on disk

The manifest makes it a checkpoint. Each file appears under its name only when it is complete and on disk. The manifest
holds the digest of every shard, the sizes of the model and its alphabet: all that is needed to load the model, by any
number of ranks.
"""

import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.model import Vector
from deploy.workloads.charlm.ring import Alone, Ring

FORMAT = "charlm-checkpoint/1"
KEPT = 3
MANIFEST = "manifest.json"
ROWS = ["parameters", "velocity"]
DIGEST_BYTES = 32


class CheckpointError(Exception):
    """The directory cannot be used; the text says why."""


class NotGood(Exception):
    """This checkpoint is torn or damaged; an older one may do."""


@dataclass
class State:
    """What training goes on from."""

    step: int
    rows: Vector  # (2, size of the model): parameters, velocity

    @property
    def parameters(self) -> Vector:
        parameters: Vector = self.rows[0]
        return parameters

    @property
    def velocity(self) -> Vector:
        velocity: Vector = self.rows[1]
        return velocity


@dataclass(frozen=True)
class Checkpoints:
    directory: Path
    model: dict[str, Any]  # see Model.describe, with the vocabulary
    ring: Ring | Alone
    log: Log

    def save(self, state: State, training: dict[str, Any]) -> None:
        """Write on all ranks together; `training` is for readers. A full disk costs the checkpoint, not the run."""
        started = time.monotonic()
        if not np.isfinite(state.rows).all():
            self.log.warn(f"No checkpoint of step {state.step}: its numbers are not finite")
            return
        folder = self.directory / f"step-{state.step:08d}"
        digests = np.zeros((self.ring.size, DIGEST_BYTES))
        try:
            digests[self.ring.rank] = list(self._write_shard(folder, state))
        except OSError as error:
            self.log.error(f"Checkpoint of step {state.step} not written: {error}")
        self.ring.all_reduce(digests.reshape(-1))  # from here on all shards are on disk, or their digest is zero
        good = np.zeros(1)
        if self.ring.rank == 0 and digests.any(axis=1).all():
            try:
                self._write_manifest(folder, state, training, digests)
                good[0] = 1
            except OSError as error:
                self.log.error(f"Checkpoint of step {state.step} not written: {error}")
        if self.ring.all_reduce(good)[0] and self.ring.rank == 0:
            mebibytes = state.rows.nbytes / 2**20
            seconds = time.monotonic() - started
            self.log.info(f"Checkpoint saved: step {state.step}, {mebibytes:.1f} MiB, {seconds:.2f} s")
            self._prune(state.step)

    def restore(self, size: int, step: int | None = None) -> State | None:
        """The newest good one, or that of a step, the same on all ranks: rank 0 reads, the others get its numbers.

        Raise CheckpointError.
        """
        state = self._newest_good(size, step) if self.ring.rank == 0 else None
        found = self.ring.all_reduce(np.array([float(state.step if state else 0)]))
        if not found[0]:
            return None
        state = state or State(int(found[0]), np.zeros((len(ROWS), size)))
        self.ring.all_reduce(state.rows.reshape(-1))
        return state

    def _write_shard(self, folder: Path, state: State) -> bytes:
        folder.mkdir(parents=True, exist_ok=True)
        start, stop = _slice(state.rows.shape[1], self.ring.rank, self.ring.size)
        buffer = io.BytesIO()
        np.save(buffer, state.rows[:, start:stop])
        write_atomically(folder / _shard_name(self.ring.rank, self.ring.size), buffer.getvalue())
        return hashlib.sha256(buffer.getvalue()).digest()

    def _write_manifest(self, folder: Path, state: State, training: dict[str, Any], digests: Vector) -> None:
        """Raise FileNotFoundError if a rank wrote its shard to a directory that is not this one."""
        size, shards = self.ring.size, []
        for rank in range(size):
            (folder / _shard_name(rank, size)).stat()
            start, stop = _slice(state.rows.shape[1], rank, size)
            digest = bytes(digests[rank].astype(np.uint8)).hex()
            shards.append({"file": _shard_name(rank, size), "start": start, "stop": stop, "sha256": digest})
        manifest = {
            "format": FORMAT,
            "step": state.step,
            "saved_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "world_size": size,
            "rows": ROWS,
            "dtype": "float64",
            "model": self.model,
            "training": training,
            "shards": shards,
        }
        write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1).encode())

    def _newest_good(self, size: int, step: int | None) -> State | None:
        pattern = "step-*" if step is None else f"step-{step:08d}"
        for folder in sorted(self.directory.glob(pattern), reverse=True):
            try:
                return self._read(folder, size)
            except NotGood as why:
                self.log.warn(f"Checkpoint skipped: {folder.name}: {why}")
        return None

    def _read(self, folder: Path, size: int) -> State:
        manifest = read_manifest(folder)
        if folder.name != f"step-{manifest['step']:08d}":
            raise NotGood("its manifest is not of this step")
        if manifest["model"] != self.model:
            raise CheckpointError(f"{folder} is of another model; choose another directory")
        return read_state(folder, manifest, size)

    def _prune(self, newest: int) -> None:
        """Keep the last good ones up to this step. Later ones were passed over at the start; they are left alone."""
        folders = [f for f in sorted(self.directory.glob("step-*"), reverse=True) if f.name <= f"step-{newest:08d}"]
        good = [folder for folder in folders if (folder / MANIFEST).exists()]
        for folder in folders:
            if folder not in good[:KEPT]:
                shutil.rmtree(folder, ignore_errors=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a checkpoint says of itself: `step`, `model`, `shards` are there. Raise NotGood."""
    with _faults():
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise NotGood("its manifest is not of this format")
        int(manifest["step"]), dict(manifest["model"]), list(manifest["shards"])
    return manifest


def read_state(folder: Path, manifest: dict[str, Any], size: int) -> State:
    """The numbers of a model of this size, each shard held against its digest. Raise NotGood."""
    with _faults():
        state = State(manifest["step"], np.full((len(ROWS), size), np.nan))
        for shard in manifest["shards"]:
            data = (folder / shard["file"]).read_bytes()
            if hashlib.sha256(data).hexdigest() != shard["sha256"]:
                raise NotGood(f"{shard['file']} is not what was written")
            state.rows[:, shard["start"] : shard["stop"]] = np.load(io.BytesIO(data), allow_pickle=False)
    if not np.isfinite(state.rows).all():
        raise NotGood("its shards do not cover the model")
    return state


@contextmanager
def _faults() -> Iterator[None]:
    """What reading files of unknown content can raise, as NotGood."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotGood(f"{Path(error.filename).name} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotGood(repr(error)) from error


def write_atomically(path: Path, data: bytes) -> None:
    """The file is there whole and on disk, or not at all. Raise OSError."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _slice(size: int, rank: int, ranks: int) -> tuple[int, int]:
    return size * rank // ranks, size * (rank + 1) // ranks


def _shard_name(rank: int, ranks: int) -> str:
    return f"shard-{rank}-of-{ranks}.npy"
