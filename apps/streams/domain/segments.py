"""A stretch of a log as it lies in object storage: gzip of a head and of frames as the ring holds them, one a line.

gzip of the standard library serves: the level used here packs 200 MB/s eightfold and unpacks 500 MB/s, more than the
frames in it are decoded with; and `zcat` reads what is kept, whatever becomes of this program.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from apps.streams.domain.frames import Entry, unpack_log
from apps.streams.domain.lines import Block, weight

LEVEL = 3


@dataclass(frozen=True)
class Packed:
    """The bytes of a segment under their digest; `raw_size` is how many they are unpacked."""

    digest: str
    body: bytes
    raw_size: int = 0


@dataclass
class Summary:
    """What is known of a segment without reading it."""

    first: int
    last: int = 0
    begins: int = 2**63 - 1
    ends: int = 0
    steps: tuple[int, int] | None = None
    attempts: set[int] = field(default_factory=set)
    ranks: set[int] | None = field(default_factory=set)
    """None once a line has none."""
    worst: int = -1

    def add(self, block: Block) -> None:
        frame = block.frame
        self.last = block.last
        self.attempts.add(frame.src.attempt)
        if not frame.lines:
            return
        times = [line.at for line in frame.lines]
        self.begins, self.ends = min(self.begins, *times), max(self.ends, *times)
        if steps := [line.step for line in frame.lines if line.step is not None]:
            known = self.steps or (steps[0], steps[0])
            self.steps = min(known[0], *steps), max(known[1], *steps)
        self.worst = max(self.worst, *(weight(level or "INFO") for level in {line.level for line in frame.lines}))
        ranks = {frame.src.rank if line.rank is None else line.rank for line in frame.lines}
        if self.ranks is not None:
            self.ranks = None if None in ranks else self.ranks | {rank for rank in ranks if rank is not None}


def summed(entries: Sequence[Entry]) -> Summary:
    found = Summary(entries[0].lines_before + 1)
    for entry in entries:
        found.add(Block(entry.lines_before + 1, unpack_log(entry.body)))
    return found


def pack(topic: str, entries: Sequence[Entry]) -> Packed:
    lines = [b"%d %b" % (entry.lines_before + 1, entry.body) for entry in entries]
    return packed(topic, entries[0].lines_before + 1, lines)


def packed(topic: str, first: int, frames: Iterable[bytes]) -> Packed:
    """A segment of frames as `unpack` gives them."""
    # The nonce makes the digest nobody's to guess: no other stored bytes can ever be the same.
    head = json.dumps({"topic": topic, "first": first, "nonce": secrets.token_hex(16)}).encode()
    raw = b"\n".join((head, *frames, b""))
    body = gzip.compress(raw, LEVEL, mtime=0)
    return Packed(hashlib.sha256(body).hexdigest(), body, len(raw))


class Broken(ValueError):
    """Frames that do not follow on each other, or not the lines they should be."""


def summed_frames(first: int, last: int, frames: Iterable[bytes]) -> Summary:
    """What is known of frames that must be the lines from `first` to `last`, each once. Raises Broken."""
    found = Summary(first, first - 1)
    for block in blocks(frames):
        if block.first != found.last + 1:
            raise Broken(f"line {found.last + 1} is not where it should be")
        found.add(block)
    if found.last != last:
        raise Broken(f"the last line is {found.last}, not {last}")
    return found


def unpack(chunks: Iterable[bytes]) -> Sequence[bytes]:
    """The frames of a segment as they lie there, in order."""
    return gzip.decompress(b"".join(chunks)).split(b"\n")[1:-1]


def blocks(lines: Iterable[bytes]) -> Iterator[Block]:
    for line in lines:
        first, _, body = line.partition(b" ")
        yield Block(int(first), unpack_log(body))
