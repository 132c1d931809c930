"""A stretch of a curve in the columns of a picture: of each its first, last, lowest and highest point (M4), so that no
spike is lost, and the first of every value that is no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""Stands for a point that a column does not have."""

Steps = NDArray[np.int64]
Values = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Columns:
    """The columns that hold points, from left to right. All arrays are of their number.

    `number` counts columns from `start` on; the others but `mean` are places in the curve. `low` and `high` are those
    of the least and the greatest finite value, the first of equals; `mean` is of finite values. `odd` has a row each
    for NaN, infinity and minus infinity.
    """

    start: int
    stop: int
    width: int
    number: Indices
    first: Indices
    last: Indices
    low: Indices
    high: Indices
    odd: NDArray[np.intp]
    mean: Values

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in _fields(self))

    def kept(self) -> Indices:
        """The places of all points that are told of, in order, each once."""
        every = np.concatenate([self.first, self.last, self.low, self.high, *self.odd])
        return np.unique(every[every != NONE]).astype(np.intp)


SIZE = 64


@dataclass(frozen=True)
class Blocks:
    """What whole columns need to know of each SIZE values: places as in `Columns`, the sum and the number of the finite
    ones. Values behind the last whole block belong to none."""

    low: Indices
    high: Indices
    odd: NDArray[np.intp]
    sums: Values
    counts: Values

    def __len__(self) -> int:
        return len(self.low)

    @classmethod
    def of(cls, values: Values, begin: int = 0) -> Blocks:
        """Those of the values from place `begin` on, which is that of a block."""
        whole = values[begin : len(values) - len(values) % SIZE]
        if not len(whole):
            none = np.empty(0, dtype=np.intp)
            return cls(none, none, np.empty((3, 0), dtype=np.intp), np.empty(0), np.empty(0))
        finite = np.isfinite(whole)
        begins = np.arange(0, len(whole), SIZE)
        low, high, odd = (np.where(place == NONE, NONE, place + begin) for place in _extremes(whole, begins))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.where(finite, whole, 0.0).reshape(-1, SIZE).sum(axis=1)
        return cls(low, high, odd, sums, finite.reshape(-1, SIZE).sum(axis=1).astype(np.float64))

    def grown(self, values: Values) -> Blocks:
        """Those of values that begin with the ones these are of."""
        if len(values) // SIZE == len(self):
            return self
        new = Blocks.of(values, len(self) * SIZE)
        return Blocks(
            np.append(self.low, new.low), np.append(self.high, new.high), np.append(self.odd, new.odd, axis=1),
            np.append(self.sums, new.sums), np.append(self.counts, new.counts),
        )  # fmt: skip


def rounded(start: int, stop: int) -> int:
    """A stop for a curve that grows: this one or up to a 512th of the stretch behind it, and seldom another than for
    the curve of before, so that most of its columns stay as they are."""
    grain = max(0, ((stop - start + 1) // 512).bit_length() - 1)
    return start + (-(-(stop - start + 1) >> grain) << grain) - 1


def edges(start: int, stop: int, width: int) -> list[int]:
    """The first step of each column when `start` to `stop`, both included, are cut into `width` equal ones. Columns are
    no narrower than a step."""
    span = stop - start + 1
    width = min(width, span)
    return [start + -(-number * span // width) for number in range(width)]


def grown(known: Columns, steps: Steps, values: Values, blocks: Blocks | None = None) -> Columns:
    """The same columns of a curve that has more points behind its last: the last one that held any, and those after it,
    are looked at anew."""
    if not len(known.number):
        return columns(steps, values, known.start, known.stop, known.width, blocks)
    new = _after((steps, values, blocks), known.start, known.stop, known.width, skip=int(known.number[-1]))
    parts: Any = zip(_fields(known), _fields(new), strict=True)
    return Columns(known.start, known.stop, known.width, *(np.append(a[..., :-1], b, axis=-1) for a, b in parts))


def _fields(of: Columns) -> tuple[Indices, Indices, Indices, Indices, Indices, NDArray[np.intp], Values]:
    return of.number, of.first, of.last, of.low, of.high, of.odd, of.mean


def columns(steps: Steps, values: Values, start: int, stop: int, width: int, blocks: Blocks | None = None) -> Columns:
    """Cut the points from `start` to `stop`, both included, into `width` columns. `steps` ascend; equal ones may be
    among them. `blocks`, if given, are those of these values, and change the speed alone."""
    return _after((steps, values, blocks), start, stop, width, skip=0)


def _after(curve: tuple[Steps, Values, Blocks | None], start: int, stop: int, width: int, *, skip: int) -> Columns:
    """Those of `columns` after the first `skip`."""
    steps, values, blocks = curve
    lefts = edges(start, stop, width)
    begins = np.searchsorted(steps, np.array(lefts[skip:], dtype=np.int64), side="left")
    ends = np.append(begins[1:], np.searchsorted(steps, stop, side="right"))
    held = np.flatnonzero(ends > begins)
    begins, ends, number = begins[held], ends[held], held + skip
    if not len(number):
        none = np.empty(0, dtype=np.intp)
        return Columns(start, stop, len(lefts), number, none, none, none, none, np.empty((3, 0), np.intp), np.empty(0))
    blocks = blocks or Blocks.of(values[:0])
    alone, inner = _parted(begins, int(ends[-1]), len(blocks))
    some, at = values[alone], np.searchsorted(alone, begins)
    low, high, odd = (np.where(place == NONE, NONE, alone[place]) for place in _extremes(some, at))
    finite = np.isfinite(some)
    with np.errstate(over="ignore", invalid="ignore"):  # sums of numbers near the largest there is
        sums = np.add.reduceat(np.where(finite, some, 0.0), at)
        counts = np.add.reduceat(finite, at, dtype=np.float64)
        if len(inner):
            _add_blocks(values, blocks, inner, begins, _Parts(low, high, odd, sums, counts))
        mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return Columns(start, stop, len(lefts), number, begins, ends - 1, low, high, odd, mean)


def _parted(begins: Indices, stop: int, known: int) -> tuple[Indices, Indices]:
    """The places to look at one by one, ascending, and the numbers of the blocks that lie within a column. In the block
    in which a column begins, every place is looked at: so much remains as the picture is wide, however long the curve
    is."""
    start = int(begins[0])
    first, last = -(-start // SIZE), min(stop // SIZE, known)
    if last <= first:
        return np.arange(start, stop), np.empty(0, dtype=np.intp)
    within = np.ones(last - first, dtype=np.bool_)
    cut = begins // SIZE - first
    within[cut[(cut >= 0) & (cut < len(within))]] = False
    whole = (np.flatnonzero(~within) + first)[:, None] * SIZE + np.arange(SIZE)
    alone = np.concatenate([np.arange(start, first * SIZE), whole.ravel(), np.arange(last * SIZE, stop)])
    return alone, np.flatnonzero(within) + first


@dataclass(frozen=True)
class _Parts:
    """What is known of each column so far."""

    low: Indices
    high: Indices
    odd: NDArray[np.intp]
    sums: Values
    counts: Values


def _add_blocks(values: Values, blocks: Blocks, inner: Indices, begins: Indices, parts: _Parts) -> None:
    """Take into account the blocks that lie within columns."""
    at = np.searchsorted(inner * SIZE, begins)
    where = np.flatnonzero(np.diff(np.append(at, len(inner))))  # the columns that have any
    at = at[where]
    for mine, theirs, which, better in (
        (parts.low, blocks.low[inner], 0, np.less),
        (parts.high, blocks.high[inner], 1, np.greater),
    ):
        told = np.where(theirs == NONE, np.nan, values[theirs])
        found = _extremes(told, at)[which]
        place, known = np.where(found == NONE, NONE, theirs[found]), mine[where]
        new, old = values[place], values[known]
        is_better = (known == NONE) | better(new, old) | ((new == old) & (place < known))
        mine[where] = np.where((place != NONE) & is_better, place, known)
    for kind in range(len(blocks.odd)):
        theirs = blocks.odd[kind, inner]
        found = _firsts(theirs != NONE, at)
        place, known = np.where(found == NONE, NONE, theirs[found]), parts.odd[kind, where]
        parts.odd[kind, where] = np.where((place != NONE) & ((known == NONE) | (place < known)), place, known)
    parts.sums[where] += np.add.reduceat(blocks.sums[inner], at)
    parts.counts[where] += np.add.reduceat(blocks.counts[inner], at)


def _extremes(values: Values, begins: Indices) -> tuple[Indices, Indices, NDArray[np.intp]]:
    """Of each stretch the places of the least and the greatest finite value, and where others are first. Stretches
    touch, and the last ends with the values."""
    lengths = np.diff(np.append(begins, len(values)))
    finite = np.isfinite(values)
    found = []
    for extreme, never in ((np.minimum, np.inf), (np.maximum, -np.inf)):
        numbers = np.where(finite, values, never)
        found.append(_firsts(finite & (numbers == np.repeat(extreme.reduceat(numbers, begins), lengths)), begins))
    if finite.all():
        return found[0], found[1], np.full((3, len(begins)), NONE, dtype=np.intp)
    odd = [_firsts(other, begins) for other in (np.isnan(values), values == np.inf, values == -np.inf)]
    return found[0], found[1], np.stack(odd)


def _firsts(found: NDArray[np.bool_], begins: Indices) -> Indices:
    """The first place in each stretch at which it was found, else NONE."""
    places = np.flatnonzero(found)
    at = np.searchsorted(places, begins)
    ends = np.append(begins[1:], len(found))
    first = np.append(places, len(found))[at]
    return np.where(first < ends, first, NONE).astype(np.intp)
