"""The log that is kept for good: segments in object storage, written by the watch process ahead of the ring's trimming.

One segment of a topic is made at a time: its frames are read from the ring, its row reserved, its bytes stored, its row
settled, the ring told. Wherever that stops, the lines are still in the ring, and bytes without a settled row are swept.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.db import transaction
from django.db.models import Max, Min, Q, QuerySet
from django.utils import timezone

from apps.adapters.errors import NotFound
from apps.adapters.storage import storage
from apps.streams.domain.frames import Entry
from apps.streams.domain.lines import Block, Filter, weight
from apps.streams.domain.segments import Packed, Summary, blocks, pack, summed, unpack
from apps.streams.models import Segment
from apps.streams.services import retention, ring
from apps.streams.services.buffer import Kept, Keys, redis
from apps.streams.services.ring import Extent
from apps.streams.services.topics import tenant_of

SEGMENT_LINES, SEGMENT_BYTES = 10_000, 4 << 20
QUIET_SECONDS, WAIT_SECONDS = 30.0, 300.0
"""A topic that is quiet for so long, or has lines that wait for so long, gets a segment that is not full."""
MERGE_AFTER = timedelta(minutes=10)
END = 2**63 - 1
CACHED_SEGMENTS = 4
_READABLE = Q(stored=True, due_at=None)


@dataclass(frozen=True)
class Gathered:
    """A segment on its way to storage."""

    topic: str
    summary: Summary
    packed: Packed
    places: dict[str, str]
    end: Entry
    """Its last entry in the ring."""


# --- writing ----------------------------------------------------------------------------------------------------------


def waiting_topics() -> set[str]:
    """Topics in the ring of which lines may wait to be kept. Raises RedisError."""
    head, tail = Keys.of("\0").meta.split("\0")
    return {key.decode().removeprefix(head).removesuffix(tail) for key in redis().scan_iter(f"{head}*{tail}", 1000)}


def waits(topic: str) -> bool:
    """Whether lines of a topic are not kept yet. Raises RedisError."""
    known = cast("list[Any]", redis().hmget(Keys.of(topic).meta, "kept", "lines"))
    return None not in known and int(known[0]) < int(known[1])


def gather(topic: str, *, now: bool = False) -> Gathered | None:
    """The next segment of a topic, if there are lines for a full one, or some wait for long, or `now`. Raises
    RedisError."""
    names = ("kept", "lines", "kept_bytes", "bytes", "kept_entry")
    known = cast("list[bytes | None]", redis().hmget(Keys.of(topic).meta, names))
    kept_lines, all_lines, kept_bytes, all_bytes = (int(count or 0) for count in known[:4])
    lines, size, after = all_lines - kept_lines, all_bytes - kept_bytes, (known[4] or b"").decode()
    if known[0] is None or lines <= 0:
        return None
    if not (now or lines >= SEGMENT_LINES or size >= SEGMENT_BYTES or _has_waited(topic, after)):
        return None
    before = kept(topic)
    if before.last > kept_lines:  # whoever kept those did not come to tell the ring
        kept_lines, after = before.last, ""
    entries, lines, size = list[Entry](), 0, 0
    for entry in ring.entries(topic, kept_lines + 1, after=after):
        entries.append(entry)
        lines, size = lines + entry.count, size + len(entry.body)
        if lines >= SEGMENT_LINES or size >= SEGMENT_BYTES:
            break
    if not lines:
        return None
    places = dict(before.places)
    places |= {entry.source: entry.place for entry in entries if entry.source}
    return Gathered(topic, summed(entries), pack(topic, entries), places, entries[-1])


def _has_waited(topic: str, after: str) -> bool:
    """Whether nothing has come for a while, or what came behind an entry is older."""
    pipe, stream = redis().pipeline(transaction=False), Keys.of(topic).stream
    pipe.xrange(stream, f"({after}" if after else "-", "+", 1)
    pipe.xrevrange(stream, "+", "-", 1)
    oldest, newest = (int(found[0][0].split(b"-")[0]) / 1e3 if found else 0.0 for found in pipe.execute())
    return time.time() - newest > QUIET_SECONDS or time.time() - oldest > WAIT_SECONDS


def reserve(found: Gathered) -> int:
    """The row of a segment whose bytes are about to be stored."""
    return reserved(found.topic, found.summary, found.packed, found.places)


def reserved(topic: str, summary: Summary, packed: Packed, places: dict[str, str]) -> int:
    """The same of what was not gathered from the ring."""
    return Segment.objects.create(
        topic=topic,
        tenant_id=tenant_of(topic),
        first=summary.first,
        last=summary.last,
        begins=summary.begins,
        ends=summary.ends,
        first_step=summary.steps[0] if summary.steps else None,
        last_step=summary.steps[1] if summary.steps else None,
        attempts=sorted(summary.attempts),
        ranks=sorted(summary.ranks or ()),
        worst=summary.worst,
        digest=packed.digest,
        size=len(packed.body),
        raw_size=packed.raw_size,
        places=places,
    ).pk


def store(found: Gathered) -> None:
    """Raises Unavailable."""
    put(found.packed)


def put(packed: Packed) -> None:
    """Raises Unavailable."""
    storage().put(packed.digest, len(packed.body), iter([packed.body]), lambda _count: None)


@transaction.atomic
def settle(pk: int) -> None:
    """The bytes are there. Raises IntegrityError where somebody else has kept these lines."""
    Segment.objects.filter(pk=pk).update(stored=True, merge_at=timezone.now() + MERGE_AFTER)
    segment = Segment.objects.get(pk=pk)
    Segment.objects.filter(topic=segment.topic).exclude(pk=pk).exclude(places={}).update(places={})
    if segment.tenant_id is not None:
        retention.make_room(segment.tenant_id)


_TELL = """
if redis.call('HGET', KEYS[1], 'birth') ~= ARGV[1] then return 0 end
return redis.call('HSET', KEYS[1], 'kept', ARGV[2], 'kept_entry', ARGV[3], 'kept_bytes', ARGV[4])
"""


def tell_ring(found: Gathered) -> None:
    """From now on the ring may trim these lines; one that was begun anew meanwhile is not theirs. Raises RedisError."""
    after = found.end.after
    told = (after.birth, str(after.lines), after.entry_id, str(found.end.bytes))
    redis().eval(_TELL, 1, Keys.of(found.topic).meta, *told)


def kept(topic: str) -> Kept:
    """What is kept of a topic, for going on behind it; lines that retention took count too."""
    newest = Segment.objects.filter(topic=topic, stored=True).order_by("-last").first()
    return Kept(newest.last, newest.places) if newest else Kept()


# --- reading ----------------------------------------------------------------------------------------------------------


def extent(topic: str) -> Extent | None:
    found = Segment.objects.filter(_READABLE, topic=topic).aggregate(first=Min("first"), last=Max("last"))
    return None if found["first"] is None else Extent(found["first"], found["last"])


def forwards(topic: str, low: int, high: int, wanted: Filter) -> Iterator[Block]:
    """Frames in order from the one with line `low` to the one with line `high`. Raises Unavailable."""
    for segment in _segments(topic, low, high, wanted).order_by("first").iterator(chunk_size=100):
        for block in _blocks(segment):
            if block.last >= low and block.first <= high:
                yield block


def backwards(topic: str, low: int, high: int, wanted: Filter) -> Iterator[Block]:
    """The same from line `high` back to line `low`."""
    for segment in _segments(topic, low, high, wanted).order_by("-last").iterator(chunk_size=100):
        for block in reversed(list(_blocks(segment))):
            if block.last >= low and block.first <= high:
                yield block


def line_since(topic: str, moment: int) -> int:
    """The first line of the segment with the first line of this time (ns) or later; that behind the last one else."""
    segments = Segment.objects.filter(_READABLE, topic=topic)
    found = segments.filter(ends__gte=moment).aggregate(first=Min("first"))["first"]
    return int(found or (segments.aggregate(last=Max("last"))["last"] or 0) + 1)


def of_step(topic: str, high: int, step: int) -> Iterator[Block]:
    """Frames from line `high` back, of the segments with lines of this step."""
    found = _segments(topic, 1, high, Filter()).filter(first_step__lte=step, last_step__gte=step)
    for segment in found.order_by("-last").iterator(chunk_size=100):
        yield from reversed(list(_blocks(segment)))


def _segments(topic: str, low: int, high: int, wanted: Filter) -> QuerySet[Segment]:
    """Those in which wanted lines can be."""
    found = Segment.objects.filter(_READABLE, topic=topic, last__gte=low, first__lte=high)
    if wanted.attempt is not None:
        found = found.filter(attempts__contains=[wanted.attempt])
    if wanted.since is not None:
        found = found.filter(ends__gte=wanted.since)
    if wanted.until is not None:
        found = found.filter(begins__lt=wanted.until)
    if wanted.ranks:
        found = found.filter(Q(ranks__overlap=sorted(wanted.ranks)) | Q(ranks=[]))
    return found.filter(worst__gte=weight(wanted.level)) if wanted.level else found


def _blocks(segment: Segment) -> Iterator[Block]:
    try:
        return blocks(_frames(segment.digest))
    except NotFound:
        return _elsewhere(segment)


def _elsewhere(segment: Segment) -> Iterator[Block]:
    """The frames of a segment that was taken away since it was found: it was merged with others, or is over."""
    now = Segment.objects.filter(_READABLE, topic=segment.topic, last__gte=segment.first, first__lte=segment.last)
    for other in now.order_by("first"):
        try:
            frames = _frames(other.digest)
        except NotFound:
            continue  # retention took it in this moment
        for block in blocks(frames):
            if segment.first <= block.first <= segment.last and block.last <= segment.last:
                yield block


@functools.lru_cache(CACHED_SEGMENTS)
def _frames(digest: str) -> Sequence[bytes]:
    """Those last read: a page that is scrolled through reads a segment several times."""
    return unpack(storage().read(digest))
