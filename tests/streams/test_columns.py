"""Columns of a curve against brute force, and the bytes in which a page's script takes them."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.streams.domain import columns as domain
from apps.streams.domain.columns import NONE, Blocks, columns, edges, grown, rounded
from apps.streams.domain.packed import NARROW, WIDE, pack

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
CURVES = st.lists(st.tuples(st.integers(0, 60), NUMBERS), max_size=80).map(
    lambda points: sorted(points, key=lambda p: p[0])
)
FAR = st.lists(st.tuples(st.integers(0, 2**63 - 1), NUMBERS), max_size=30).map(
    lambda points: sorted(points, key=lambda p: p[0])
)


def arrays(points: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s for s, _v in points], dtype=np.int64), np.array([v for _s, v in points], dtype=np.float64)


def brute(points: list[tuple[int, float]], start: int, stop: int, width: int) -> list[tuple[int | None, ...]]:
    """By column: number, first, last, lowest, highest, first NaN, first infinity, first minus infinity."""
    width = min(width, stop - start + 1)
    held: dict[int, list[int]] = {}
    for place, (step, _value) in enumerate(points):
        if start <= step <= stop:
            held.setdefault((step - start) * width // (stop - start + 1), []).append(place)
    found = []
    for number, places in sorted(held.items()):
        finite = [place for place in places if math.isfinite(points[place][1])]
        odd = [
            [p for p in places if test(points[p][1])]
            for test in (math.isnan, lambda v: v == math.inf, lambda v: v == -math.inf)
        ]
        found.append((
            number, places[0], places[-1],
            min(finite, key=lambda p: points[p][1], default=NONE), max(finite, key=lambda p: points[p][1], default=NONE),
            *(places[0] if places else NONE for places in odd),
        ))  # fmt: skip
    return found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "SIZE", 4)


def blocks_of(values: np.ndarray, known: int | None) -> Blocks | None:
    """None, or those of the values, grown from those of the first `known`."""
    return None if known is None else Blocks.of(values[:known]).grown(values)


def exact_mean(finite: list[float]) -> float:
    return float(sum(map(Fraction, finite)) / len(finite)) if finite else math.nan


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(CURVES, FAR),
    st.integers(0, 70),
    st.integers(0, 70),
    st.integers(1, 90),
    st.booleans(),
    st.none() | st.integers(0, 80),
)
def test_columns_equal_brute_force(
    points: list[tuple[int, float]], a: int, b: int, width: int, whole: bool, known: int | None
) -> None:
    start, stop = (points[0][0], points[-1][0]) if whole and points else (min(a, b), max(a, b))
    steps, values = arrays(points)
    cut = columns(steps, values, start, stop, width, blocks_of(values, known))
    told = [cut.number, cut.first, cut.last, cut.low, cut.high, *cut.odd]
    expected = brute(points, start, stop, width)
    assert list(zip(*(part.tolist() for part in told), strict=True)) == expected
    for mean, (_number, first, last, *_rest) in zip(cut.mean, expected, strict=True):
        finite = [value for _step, value in points[first : last + 1] if math.isfinite(value)]
        if math.isinf(sum(map(abs, finite))):
            continue  # the mean of numbers near the largest there is may be infinite
        assert mean == pytest.approx(
            exact_mean(finite), rel=1e-9, abs=1e-9 * max(map(abs, finite), default=0), nan_ok=True
        )
    named = {place for row in expected for place in row[1:] if place != NONE}
    assert cut.kept().tolist() == sorted(named)


@settings(max_examples=300, deadline=None)
@given(st.one_of(CURVES, FAR), st.integers(0, 70), st.integers(0, 70), st.integers(1, 90), st.booleans())
def test_columns_of_a_curve_that_grew_are_those_of_the_whole(
    points: list[tuple[int, float]], first: int, stop: int, width: int, blocked: bool
) -> None:
    steps, values = arrays(points)
    was = int(np.searchsorted(steps, stop // 2, side="right"))
    blocks = Blocks.of(values) if blocked else None
    start, stop = min(first, stop), max(first, stop, int(steps[-1]) if len(steps) and blocked else 0)
    found = grown(columns(steps[:was], values[:was], start, stop, width), steps, values, blocks)
    whole = columns(steps, values, start, stop, width)
    assert (found.start, found.stop, found.width) == (whole.start, whole.stop, whole.width)
    for name in ("number", "first", "last", "low", "high", "odd"):
        assert getattr(found, name).tolist() == getattr(whole, name).tolist(), name
    # Sums are made in another order.
    most = np.abs(values[np.isfinite(values)]).max(initial=0)
    if most < 1e300:
        assert found.mean == pytest.approx(whole.mean, rel=1e-9, abs=1e-9 * most, nan_ok=True)


@given(st.integers(0, 2**40), st.integers(1, 2**40))
def test_a_growing_curve_keeps_its_columns_for_a_while(start: int, span: int) -> None:
    stop = rounded(start, start + span - 1)
    assert 0 <= stop - (start + span - 1) <= span // 512
    later = {rounded(start, start + span - 1 + more) for more in range(1 + span // 2048)[:50]}
    assert len(later) <= 2
    assert edges(start, stop, 1) == [start]


@settings(max_examples=200, deadline=None)
@given(st.one_of(CURVES, FAR), st.integers(1, 90))
def test_packed_columns_say_the_same(points: list[tuple[int, float]], width: int) -> None:
    if not points:
        return
    steps, values = arrays(points)
    cut = columns(steps, values, points[0][0], points[-1][0], width)
    body, wide = pack(cut, steps, values)
    rows = np.frombuffer(body, dtype=WIDE if wide else NARROW)
    assert len(rows) == len(cut.number)
    for row, first, low, high, last in zip(rows, cut.first, cut.low, cut.high, cut.last, strict=True):
        near = 1e-15 if wide else 1e-6
        for told, place in zip(row["value"], (first, low, high, last), strict=True):
            value = math.nan if place == NONE else values[place]
            assert told == pytest.approx(value, rel=near, nan_ok=True)
        assert cut.start + int(row["first"]) == pytest.approx(int(steps[first]), rel=1e-15)
        places = [first if place == NONE else place for place in (low, high, last)]
        assert [int(after) for after in row["after"]] == pytest.approx(
            [int(steps[p] - steps[first]) for p in places], rel=1e-15
        )
    assert [bool(odd & 1) for odd in rows["odd"]] == (cut.odd[0] != NONE).tolist()


def test_a_column_is_never_narrower_than_a_step() -> None:
    points = [(10, 1.0), (11, 2.0), (12, 3.0)]
    assert columns(*arrays(points), 10, 12, 1000).number.tolist() == [0, 1, 2]


def test_a_million_points_in_a_thousand_columns_stay_below_32_kb() -> None:
    steps, values = np.arange(10**6, dtype=np.int64), np.random.default_rng(1).normal(size=10**6)
    values[123_456] = math.nan
    body, wide = pack(columns(steps, values, 0, 10**6 - 1, 1000), steps, values)
    assert not wide
    assert len(body) + len(json.dumps({"attempts": [{}]})) < 32_000
