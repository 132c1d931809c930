"""Small segments become one: no line is lost or doubled, wherever it stops and whoever reads meanwhile."""

# ruff: noqa: F811 (fixtures)
from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from apps.adapters.errors import Unavailable
from apps.adapters.storage import Bucket, Folder, storage
from apps.streams import services
from apps.streams.domain.frames import Cursor, Entry, Kind, unpack_log
from apps.streams.domain.lines import Block, Filter
from apps.streams.domain.merging import Limits, Piece, runs
from apps.streams.domain.segments import Broken, blocks, pack, packed, summed, summed_frames, unpack
from apps.streams.models import Segment
from apps.streams.services import archive, buffer, kept, merging, retention
from tests.adapters.test_storage import BUCKET, bucket, s3  # noqa: F401 (fixtures)
from tests.streams.test_archive import everything, folder, keep_all, place, topic, write  # noqa: F401 (fixtures)
from tests.streams.test_lines import SECOND, ask, numbers

LIMITS = Limits(1000, 10_000, 10**9)


# --- which are merged -------------------------------------------------------------------------------------------------


def pieces_of(sizes: list[int], *, spread: int = 1, raw: int = 1) -> list[Piece]:
    ends = list(itertools.accumulate(sizes))
    return [
        Piece(n, end - size + 1, end, (end - size + 1) * spread, end * spread, size * raw)
        for n, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def merged(run: list[Piece]) -> Piece:
    return Piece(
        run[0].pk, run[0].first, run[-1].last, min(p.begins for p in run), max(p.ends for p in run),
        sum(p.raw for p in run),
    )  # fmt: skip


def step(pieces: list[Piece], limits: Limits, *, is_over: bool) -> tuple[list[Piece], int]:
    """What is there after one look, and how many lines were written again."""
    found = {run[0].pk: run for run in runs(pieces, limits, is_over=is_over)}
    gone = {piece.pk for run in found.values() for piece in run[1:]}
    after = [merged(found[p.pk]) if p.pk in found else p for p in pieces if p.pk not in gone]
    return after, sum(piece.lines for run in found.values() for piece in run)


@examples(deadline=None)
@given(st.lists(st.integers(1, 1200), max_size=80), st.integers(1, 10**7), st.integers(1, 40), st.booleans())
def test_looks_come_to_an_end_and_break_no_limit(sizes: list[int], spread: int, raw: int, is_over: bool) -> None:
    pieces = pieces_of(sizes, spread=spread, raw=raw)
    for _look in range(20):
        after, written = step(pieces, LIMITS, is_over=is_over)
        assert [p.first for p in after[1:]] == [p.last + 1 for p in after[:-1]]
        assert sum(p.lines for p in after) == sum(sizes)
        assert all(LIMITS.hold([p]) for p in after if p not in pieces)
        pieces = after
        if not written:
            break
    else:
        raise AssertionError("they are merged for ever")
    if is_over:
        assert not any(
            LIMITS.is_small(one) and LIMITS.is_small(other) and LIMITS.hold([one, other])
            for one, other in itertools.pairwise(pieces)
        )


def test_a_log_that_grows_slowly_is_written_again_a_few_times_only() -> None:
    pieces: list[Piece] = []
    written = 0
    limits = Limits(10_000, 10**9, 10**15)
    for n in range(5000):
        pieces = [*pieces, Piece(n, 3 * n + 1, 3 * n + 3, n, n, 3)]
        pieces, again = step(pieces, limits, is_over=False)
        written += again
    assert written < 5 * 3 * 5000
    assert len(pieces) < 40


# --- the bytes --------------------------------------------------------------------------------------------------------

_LINES = st.lists(
    st.builds(
        services.LogLine,
        st.integers(0, 10**6),
        st.sampled_from(["", "INFO", "WARN", "ERROR"]),
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.integers(0, 99)),
        st.text(max_size=12),
    ),
    max_size=6,
)
_FRAMES = st.lists(
    st.tuples(_LINES, st.integers(1, 3), st.one_of(st.none(), st.integers(0, 3))), min_size=1, max_size=12
).filter(lambda frames: bool(frames[0][0]))


def entries_of(frames: list[Any]) -> list[Entry]:
    found, count = [], 0
    for lines, attempt, rank in frames:
        gap = None if lines else services.Gap(1, 2)
        body = services.pack(services.LogFrame(services.Source(rank, attempt, "p"), lines, gap)).body
        count += len(lines)
        found.append(Entry(Cursor("b", (1, count), count), Kind.LOG, len(lines), body))
    return found


@examples(deadline=None)
@given(_FRAMES, st.data())
def test_any_split_merged_is_the_original(frames: list[Any], data: st.DataObject) -> None:
    entries = entries_of(frames)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(entries) - 1)), max_size=5)))
    parts = [entries[a:b] for a, b in itertools.pairwise([0, *cuts, len(entries)]) if entries[a:b]]
    stored = [unpack([pack("job.x", part).body]) for part in parts]
    joined = [frame for part in stored for frame in part]
    whole = packed("job.x", 1, joined)
    assert list(unpack([whole.body])) == list(unpack([pack("job.x", entries).body]))
    assert summed_frames(1, entries[-1].after.lines, joined) == summed(entries)
    assert [line for block in blocks(joined) for line in block.frame.lines] == [
        line for entry in entries for line in unpack_log(entry.body).lines
    ]
    if sum(entry.count for entry in entries) > 1:
        for flawed in (joined[1:], [*joined, joined[0]]):
            with pytest.raises(Broken):
                summed_frames(1, entries[-1].after.lines, flawed)


# --- the archive ------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def for_good(settings: Any) -> None:
    """The lines of these tests are of 1970."""
    settings.LOG_KEPT_DAYS = 0


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, folder: Path) -> Callable[[], int]:
    """How many objects there are, in a folder and in a bucket of a server that speaks S3."""
    if request.param == "folder":
        return lambda: len([path for path in folder.rglob("*") if path.is_file()])
    store: Bucket = request.getfixturevalue("bucket")

    def listed() -> list[str]:
        return [each["Key"] for each in store._client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    for key in listed():
        store._client.delete_object(Bucket=BUCKET, Key=key)
    return lambda: len(listed())


def slow(topic: str, segments: int, lines: int = 3) -> None:
    for n in range(segments):
        write(topic, n * lines + 1, lines, attempt=1 + n // 6, level="ERROR" if n == 4 else "INFO")
        keep_all(topic)
    Segment.objects.update(merge_at=timezone.now())


def told(topic: str) -> dict[str, Any]:
    """What readers are given of the archive alone, by every way in."""
    page = ask(topic, "line=17&limit=10")
    return {
        "all": everything(topic),
        "text": b"".join(services.text(topic, services.Range(2, 35))),
        "line": (page["at"], numbers(page)),
        "step": numbers(ask(topic, "step=12&limit=6")),
        "time": numbers(ask(topic, f"at={20 * SECOND}&limit=6")),
        "error": numbers(ask(topic, "level=error")),
        "attempt": numbers(ask(topic, "attempt=2")),
        "found": numbers(ask(topic, "q=line+2&limit=50")),
        "extent": archive.extent(topic),
        "kept": archive.kept(topic),
    }


def stored(topic: str) -> list[tuple[int, int]]:
    return list(Segment.objects.filter(archive._READABLE, topic=topic).order_by("first").values_list("first", "last"))


def test_merged_segments_read_as_before_and_the_small_ones_go(topic: str, objects: Callable[[], int]) -> None:
    slow(topic, 12)
    buffer.forget(topic)
    before = told(topic)
    assert services.due_merges() == [topic]
    services.merge_topic(topic)
    assert stored(topic) == [(1, 33), (34, 36)], "the newest stays: it says where the sources stand"
    assert place(topic) == "36"
    archive._frames.cache_clear()
    assert told(topic) == before
    assert services.due_merges() == []
    assert (objects(), services.due_segments()) == (13, []), "who reads them now reads on"
    Segment.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
    for pk in services.due_segments():
        services.remove_segment(pk)
    archive._frames.cache_clear()
    assert told(topic) == before
    assert objects() == 2
    write(topic, 37, 3)
    keep_all(topic)
    assert everything(topic) == list(range(1, 40))


class Stopped(Exception):
    """The process is gone here."""


def stop(*_args: object, **_more: object) -> None:
    raise Stopped


def stop_after(real: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> None:
        real(*args, **more)
        raise Stopped

    return run


POINTS: dict[str, tuple[object, str, bool]] = {
    "before the row": (archive, "reserved", False),
    "after the row": (archive, "reserved", True),
    "before the bytes": (archive, "put", False),
    "after the bytes": (archive, "put", True),
    "before the swap": (merging, "swap", False),
    "after the swap": (merging, "swap", True),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_stop_at_any_point_leaves_a_whole_archive(
    topic: str,
    objects: Callable[[], int],
    point: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow(topic, 12)
    buffer.forget(topic)
    before = told(topic)
    where, name, after = POINTS[point]
    with monkeypatch.context() as patch:
        patch.setattr(where, name, stop_after(getattr(where, name)) if after else stop)
        with pytest.raises(Stopped):
            services.merge_topic(topic)
    archive._frames.cache_clear()
    assert told(topic) == before
    assert len(stored(topic)) == (2 if point == "after the swap" else 12)
    Segment.objects.update(created_at=timezone.now() - retention.UNSTORED - timedelta(minutes=1))
    services.due_segments()
    Segment.objects.filter(merge_at__isnull=False).update(merge_at=timezone.now())
    services.merge_topic(topic)
    Segment.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
    for pk in services.due_segments():
        services.remove_segment(pk)
    archive._frames.cache_clear()
    assert told(topic) == before
    assert stored(topic) == [(1, 33), (34, 36)]
    assert objects() == 2


def test_a_stop_between_the_bytes_and_the_row_of_what_was_merged(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(topic, 12)
    services.merge_topic(topic)
    Segment.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
    first, *rest = services.due_segments()
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "delete", stop)
        with pytest.raises(Stopped):
            services.remove_segment(first)
    for pk in (first, *rest):
        services.remove_segment(pk)
    assert Segment.objects.filter(topic=topic).count() == 2
    buffer.forget(topic)
    archive._frames.cache_clear()
    assert everything(topic) == list(range(1, 37))


@pytest.mark.parametrize("back", [False, True])
def test_a_reader_goes_on_when_what_it_reads_is_merged_and_taken_away(topic: str, back: bool) -> None:
    slow(topic, 12)
    buffer.forget(topic)
    reading = kept.backwards(topic, archive.END) if back else kept.forwards(topic, 1)
    found: list[Block] = [next(reading)]
    services.merge_topic(topic)
    Segment.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
    for pk in services.due_segments():
        services.remove_segment(pk)
    archive._frames.cache_clear()
    found += reading
    lines = [block.first + n for block in found for n in range(len(block.frame.lines))]
    assert sorted(lines) == list(range(1, 37))
    assert len(lines) == 36


def test_what_retention_took_meanwhile_does_not_come_back(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(topic, 12)
    buffer.forget(topic)
    real = archive.put

    def expire(packed_: Any) -> None:
        real(packed_)
        with transaction.atomic():
            retention._expire(Segment.objects.filter(topic=topic, stored=True, first__lte=9))

    with monkeypatch.context() as patch:
        patch.setattr(archive, "put", expire)
        services.merge_topic(topic)
    assert everything(topic) == list(range(10, 37))
    assert Segment.objects.filter(topic=topic, first=1, last=33).get().due_at is not None


def test_two_workers_merge_once(topic: str, objects: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    slow(topic, 12)
    real = archive.put

    def another(packed_: Any) -> None:
        real(packed_)
        monkeypatch.setattr(archive, "put", real)
        Segment.objects.update(merge_at=timezone.now())
        services.merge_topic(topic)

    monkeypatch.setattr(archive, "put", another)
    services.merge_topic(topic)
    assert stored(topic) == [(1, 33), (34, 36)]
    buffer.forget(topic)
    assert everything(topic) == list(range(1, 37))


def test_without_storage_it_is_tried_again(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(topic, 12)

    def refuses(*_args: object) -> None:
        raise Unavailable("The portal's storage cannot be used", system="storage")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", refuses)
        services.merge_topic(topic)
    assert len(stored(topic)) == 12
    Segment.objects.filter(merge_at__isnull=False).update(merge_at=timezone.now())
    services.merge_topic(topic)
    assert len(stored(topic)) == 2


def test_few_wait_until_the_log_is_over_and_lines_of_days_stay_apart(
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow(topic, 6)
    services.merge_topic(topic)
    assert len(stored(topic)) == 6
    assert services.due_merges() == []
    monkeypatch.setattr(merging, "SPAN", timedelta(seconds=8))
    Segment.objects.update(created_at=timezone.now() - timedelta(days=2), merge_at=timezone.now())
    services.merge_topic(topic)
    assert stored(topic) == [(1, 9), (10, 15), (16, 18)]
    assert not Segment.objects.filter(merge_at__isnull=False, due_at=None).exists()


def test_a_lost_object_stops_only_its_own_run(topic: str, objects: Callable[[], int]) -> None:
    slow(topic, 12)
    buffer.forget(topic)
    lost = Segment.objects.get(topic=topic, first=7)
    storage().remove(lost.digest)
    assert objects() == 11
    services.merge_topic(topic)
    assert len(stored(topic)) == 12
    assert sum(len(b.frame.lines) for b in archive.forwards(topic, 1, archive.END, Filter())) == 33
