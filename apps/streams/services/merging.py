"""Making one segment of many small ones: a log that grows slowly gets one every few minutes.

The merged bytes are stored first, under a row of their own; then, in one transaction, that row takes the place of the
others; then these are taken away as what is over is. Wherever it stops, either the old ones are read or the new one,
and what is nobody's is swept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.errors import NotFound, OutsideError
from apps.adapters.storage import storage
from apps.streams.domain.merging import PACKED, Limits, Piece, runs
from apps.streams.domain.segments import Broken, packed, summed_frames, unpack
from apps.streams.models import Segment
from apps.streams.services import archive

log = structlog.get_logger(__name__)

SPAN = timedelta(days=1)
"""A merged segment holds lines of so long: they go together when they are old."""
OVER = timedelta(days=1)
"""A log without a new segment for so long is taken to be over."""
READ_ON = timedelta(minutes=10)
"""Bytes stay so long after something took their place, for who reads them at that moment."""
LEASE, AGAIN = timedelta(minutes=5), timedelta(minutes=1)
AT_ONCE = 20
"""Merged segments that one task makes."""
ASKED = 100


def due_merges() -> list[str]:
    """Topics to look at now."""
    due = Segment.objects.filter(merge_at__lte=Now()).order_by("merge_at").values_list("topic", flat=True)[:ASKED]
    return list(dict.fromkeys(due))


def merge_topic(topic: str) -> None:
    """Merge what can be of a topic's small segments, so much at a time, and say when to look again."""
    rows, now = Segment.objects.filter(topic=topic), timezone.now()
    if not rows.filter(merge_at__lte=now).update(merge_at=now + LEASE):
        return
    newest = rows.filter(stored=True).order_by("-last").first()
    if newest is None:
        rows.update(merge_at=None)
        return
    is_over = newest.created_at < now - OVER
    try:
        found = _runs(topic, newest, is_over=is_over)
        merged = sum(_merge(topic, run) for run in found[:AT_ONCE])
    except OutsideError as error:
        log.warning("segments_unmerged", topic=topic, error=error.text)
        rows.filter(pk=newest.pk).update(merge_at=timezone.now() + AGAIN)
        return
    rows.filter(merge_at__lte=now + LEASE).exclude(pk=newest.pk).update(merge_at=None)
    if len(found) > AT_ONCE:
        rows.filter(pk=newest.pk).update(merge_at=timezone.now() + (timedelta(0) if merged else OVER))
    else:
        rows.filter(pk=newest.pk).update(merge_at=None if is_over else newest.created_at + OVER + AGAIN)


def _limits() -> Limits:
    return Limits(archive.SEGMENT_LINES, archive.SEGMENT_BYTES, int(SPAN.total_seconds()) * 10**9)


def _runs(topic: str, newest: Segment, *, is_over: bool) -> list[list[Piece]]:
    """The newest says where the sources stand, and stays as it is."""
    rows = Segment.objects.filter(topic=topic, stored=True, due_at=None, last__lt=newest.first).order_by("first")
    values = rows.values_list("pk", "first", "last", "begins", "ends", "raw_size", "size")
    pieces = (
        Piece(pk, first, last, begins, ends, size * PACKED if raw is None else raw)
        for pk, first, last, begins, ends, raw, size in values.iterator(chunk_size=1000)
    )
    return runs(pieces, _limits(), is_over=is_over)


def _merge(topic: str, run: Sequence[Piece]) -> bool:
    """Whether they are one now. Raises Unavailable."""
    frames = _frames(run)
    if frames is None:
        return False
    first, last = run[0].first, run[-1].last
    try:
        summary = summed_frames(first, last, frames)
    except Broken as error:
        log.error("segments_do_not_fit", topic=topic, first=first, last=last, error=str(error))
        return False
    merged = packed(topic, first, frames)
    row = archive.reserved(topic, summary, merged, {})
    archive.put(merged)
    return swap(row, [piece.pk for piece in run])


def _frames(run: Sequence[Piece]) -> list[bytes] | None:
    """All frames of a run; None where one is gone, or they are more than was thought, which is then kept."""
    frames: list[bytes] = []
    digests = dict(Segment.objects.filter(pk__in=[piece.pk for piece in run]).values_list("pk", "digest"))
    size = 0
    for piece in run:
        try:
            some = unpack(storage().read(digests[piece.pk]))
        except (KeyError, NotFound):
            return None
        raw = sum(map(len, some)) + len(some)
        Segment.objects.filter(pk=piece.pk, raw_size=None).update(raw_size=raw)
        size += raw
        if size > 2 * archive.SEGMENT_BYTES:
            return None
        frames += some
    return frames


@transaction.atomic
def swap(row: int, parts: Sequence[int]) -> bool:
    """Let a segment whose bytes are stored take the place of those it was made of; False, and it goes, where one of
    these is not there any more."""
    standing = Segment.objects.select_for_update().filter(pk__in=parts, stored=True, due_at=None).order_by("pk")
    if len(standing) != len(parts):
        Segment.objects.filter(pk=row).update(due_at=Now())
        return False
    Segment.objects.filter(pk__in=parts).update(stored=False, merge_at=None, due_at=timezone.now() + READ_ON)
    if not Segment.objects.filter(pk=row, stored=False, due_at=None).update(stored=True):
        transaction.set_rollback(True)  # it took so long that it was swept
        return False
    return True
