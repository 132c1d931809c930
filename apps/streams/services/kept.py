"""A topic's whole log, of the archive and of the ring, without a seam: each line is read where it still is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redis.exceptions import RedisError

from apps.streams.domain.lines import Block, Filter
from apps.streams.services import archive, ring
from apps.streams.services.ring import Extent

ALL = Filter()


def extent(topic: str) -> Extent:
    """What is there. Without the ring what the archive has; raises RedisError where that has nothing."""
    stored = archive.extent(topic)
    try:
        fresh = ring.extent(topic)
    except RedisError:
        if stored is None:
            raise
        return replace(stored, is_cut=True)
    if stored is None:
        return fresh
    if fresh.first > fresh.last:
        return replace(stored, last=max(stored.last, fresh.last), cursor=fresh.cursor)
    return replace(fresh, first=min(stored.first, fresh.first), last=max(stored.last, fresh.last))


def forwards(topic: str, start: int, wanted: Filter = ALL) -> Iterator[Block]:
    """Frames in order, from the one with line `start`; one without lines may come before. Frames in which nothing can
    be `wanted` may be left out. Raises RedisError, OutsideError."""
    at = start
    try:
        for block in ring.forwards(topic, start):
            if block.first > at:
                yield from archive.forwards(topic, at, block.first - 1, wanted)
            yield block
            at = block.last + 1
    except RedisError:
        if archive.extent(topic) is None:
            raise
    yield from archive.forwards(topic, at, archive.END, wanted)


def backwards(topic: str, end: int, wanted: Filter = ALL) -> Iterator[Block]:
    """The same from the frame with line `end` back to the oldest."""
    at = end
    try:
        for block in ring.backwards(topic, end):
            if block.last < at:
                yield from archive.backwards(topic, block.last + 1, at, wanted)
            yield block
            at = block.first - 1
    except RedisError:
        if archive.extent(topic) is None:
            raise
    yield from archive.backwards(topic, 1, at, wanted)


def since(topic: str, moment: int) -> Iterator[Block]:
    """Frames in order, among them the first with a line of this time (ns) or later."""
    return forwards(topic, archive.line_since(topic, moment))


def of_step(topic: str, step: int) -> Iterator[Block]:
    """Frames from the newest back, among them all with a line of this step."""
    at = archive.END
    for block in ring.backwards(topic, archive.END):
        yield block
        at = block.first - 1
    yield from archive.of_step(topic, at, step)
