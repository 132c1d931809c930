"""Lines, places and counts, without any server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.clusters.domain import loglines
from apps.clusters.domain.capacity import NodeSpace, capacity_of, count
from apps.clusters.domain.loglines import PIECE_BYTES, Joiner, LogLine, Splitter, stamped
from apps.clusters.domain.resume import Place, Resumer
from tests.clusters.logserver import START, stamp


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=60).map(lambda b: b.replace(b"\n", b"\r"))), st.lists(st.integers(1, 40), min_size=1)
)
def test_splitting_does_not_depend_on_chunks(lines: list[bytes], sizes: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    splitter, found, at, turn = Splitter(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert [text for text, _ in found] == lines
    assert splitter.rest() == []


@settings(deadline=None)
@given(st.lists(st.text("xy\r\n", max_size=90).map(str.encode)))
def test_lines_too_long_and_drawn_over_do_not_depend_on_chunks_either(chunks: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loglines, "TEXT_LIMIT", 20)
        patch.setattr(loglines, "STAMP_LIMIT", 0)
        patch.setattr(loglines, "DRAWN_LIMIT", 8)
        whole, parts = Splitter(), Splitter()
        found = [line for chunk in chunks for line in parts.feed(chunk)]
        assert [*found, *parts.rest()] == [*whole.feed(b"".join(chunks)), *whole.rest()]
        for text, cut in found:
            last = text.removesuffix(b"\r").rpartition(b"\r")[2]
            assert len(text) <= 8 + 20
            assert cut == 0 or len(last) >= 18


@settings(deadline=None)
@given(st.data())
def test_going_on_anywhere_takes_every_line_once(data: st.DataObject) -> None:
    """Equal times and equal texts: wherever the reader stopped, and though it asks for whole seconds."""
    steps = data.draw(st.lists(st.sampled_from([0, 1, 400_000_000, 1_000_000_000]), min_size=1, max_size=40))
    at, lines = START, []
    for number, step in enumerate(steps):
        at += step
        lines.append(LogLine(at, b"same" if data.draw(st.booleans()) else b"n%d" % number))
    taken: list[LogLine] = []
    place, written = Place(), 0
    while written < len(lines):
        written = data.draw(st.integers(written + 1, len(lines)))
        since = place.at // 1_000_000_000 * 1_000_000_000
        resumer = Resumer(place)
        for line in (line for line in lines[:written] if line.at >= since):
            if (new := resumer.take(line)) is not None:
                assert new.gap_since is None
                taken.append(new.line)
        place = resumer.place
        assert Place.load(place.dump()) == place
    assert taken == lines


@pytest.mark.parametrize(
    "text", ["2026-11-29T20:00:00.5Z", "2026-11-29T20:00:00.500000000Z", "2026-11-30T04:00:00.5+08:00"]
)
def test_times_are_compared_as_numbers(text: str) -> None:
    """openwhisk#4409: trailing zeros are trimmed, so the order of the texts lies."""
    (line,) = stamped([(f"{text} x".encode(), 0)])
    assert stamp(line.at) == "2026-11-29T20:00:00.5Z"


def test_what_the_server_says_about_a_log_is_not_a_line_of_it() -> None:
    raw = [
        b"unable to retrieve container logs for containerd://x",
        b"",
        b"2026-11-29T20:00:00Z ",
        b"2026-11-29T20:00:00Z",
    ]
    assert [line.text for line in stamped((text, 0) for text in raw)] == [b""]


def test_pieces_of_a_long_line_are_one_line() -> None:
    """kubernetes#77603: runtimes cut at 16 KiB, and with timestamps the pieces may come as lines of their own."""
    piece = b"x" * PIECE_BYTES
    joiner = Joiner()
    pieces = [LogLine(1, piece), LogLine(2, piece), LogLine(3, b"end"), LogLine(4, b"next")]
    done = [line for one in pieces for line in joiner.feed(one)]
    assert [(line.text[:4], line.cut) for line in done] == [(b"xxxx", 0), (b"next", 0)]
    assert done[0].text == piece * 2 + b"end"
    assert joiner.flush() == []
    far = [LogLine(1, piece), LogLine(10**9, b"another line")]
    assert [line.cut for one in far for line in joiner.feed(one)] == [0, 0]


def test_a_line_of_8_mb_in_pieces_is_kept_to_a_mebibyte_and_says_what_is_missing() -> None:
    """rancher#15845."""
    joiner = Joiner()
    pieces = [LogLine(n, b"x" * PIECE_BYTES) for n in range(512)]
    (line,) = [line for one in [*pieces, LogLine(512, b"end")] for line in joiner.feed(one)]
    assert (len(line.text), line.cut) == (1 << 20, 511 * PIECE_BYTES + PIECE_BYTES + 3 - (1 << 20))


def test_pieces_of_a_bar_far_apart_draw_over_each_other() -> None:
    """clearml#181: a bar that never ends its line for three days is one row, whatever the runtime makes of it."""
    bar, second = b"\r 10%|#".ljust(PIECE_BYTES, b"#"), 10**9
    joiner = Joiner()
    done = [line for n in range(4) for line in joiner.feed(LogLine(n * second, bar))]
    done += joiner.feed(LogLine(9 * second, b"\r100%")) + joiner.feed(LogLine(10 * second, b"after"))
    assert [line.over for line in done] == [False, True, True, True, True, False]
    near = [line for n in range(3) for line in joiner.feed(LogLine(n, b"x" * PIECE_BYTES))]
    near += joiner.feed(LogLine(4, b"\rlast state"))
    assert [(line.text.rpartition(b"\r")[2], line.cut) for line in near] == [(b"last state", 0)]


def space(name: str, total: int = 8, used: int = 0, product: str = "A800", **values: bool) -> NodeSpace:
    return NodeSpace(
        name, product, "nvidia.com/gpu", total, used, values.get("ready", True), values.get("schedulable", True)
    )


def test_a_gang_does_not_mix_products_nor_use_what_cannot_be_used() -> None:
    nodes = [
        space("a"), space("b"), space("c", used=1), space("d", ready=False), space("e", schedulable=False),
        space("f", total=4, product="A10"), space("cpu", total=0, product=""),
    ]  # fmt: skip
    capacity = capacity_of(nodes)
    assert (capacity.nodes, capacity.whole_free, capacity.largest_gang) == (6, 3, 16)
    assert (capacity.total, capacity.used) == (44, 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        ("1e1", 10),
        ("1e400", 4096),
        ("0", 0),
        ("-1", 0),
        ("1.5", 1),
        ("8Gi", 0),
        ("", 0),
        ("NaN", 0),
        ("1e99999999999", 4096),
    ],
)
def test_quantities_are_bounded(text: str, number: int) -> None:
    """07-qty-gpu-1e400: the API server accepts it."""
    assert count(text) == number


def test_lines_that_are_alike_need_not_stand_together() -> None:
    """Two pipes are stamped apart: a line can come again, equal in text and time, with others between."""
    lines = [
        LogLine(START, b"same"),
        LogLine(START + 5, b"other"),
        LogLine(START, b"same"),
        LogLine(START + 5, b"last"),
    ]
    for cut in range(1, len(lines) + 1):
        first = Resumer(Place())
        taken = [line.text for line in lines[:cut] if first.take(line)]
        second = Resumer(first.place)
        taken += [line.text for line in lines if second.take(line)]
        assert taken == [line.text for line in lines], cut
