"""A stretch of a curve in the columns of a picture: of each its first, last, lowest and highest point (M4), so that no
spike is lost, and the first of every value that is no number."""

from __future__ import annotations

from dataclasses import dataclass

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


def edges(start: int, stop: int, width: int) -> list[int]:
    """The first step of each column when `start` to `stop`, both included, are cut into `width` equal ones. Columns are
    no narrower than a step."""
    span = stop - start + 1
    width = min(width, span)
    return [start + -(-number * span // width) for number in range(width)]


def columns(steps: Steps, values: Values, start: int, stop: int, width: int, blocks: Blocks | None = None) -> Columns:
    """Cut the points from `start` to `stop`, both included, into `width` columns. `steps` ascend; equal ones may be
    among them. `blocks`, if given, are those of these values, and change the speed alone."""
    lefts = edges(start, stop, width)
    begins = np.searchsorted(steps, np.array(lefts, dtype=np.int64), side="left")
    ends = np.append(begins[1:], np.searchsorted(steps, stop, side="right"))
    number = np.flatnonzero(ends > begins)
    begins, ends = begins[number], ends[number]
    if not len(number):
        none = np.empty(0, dtype=np.intp)
        return Columns(start, stop, len(lefts), number, none, none, none, none, np.empty((3, 0), np.intp), np.empty(0))
    few = _few(values, begins, int(ends[-1]), blocks or Blocks.of(values[:0]))
    low, high, odd = _extremes(values[few.places], np.searchsorted(few.places, begins))
    with np.errstate(over="ignore", invalid="ignore"):  # sums of numbers near the largest there is
        mean = np.where(few.counts > 0, few.sums / np.maximum(few.counts, 1), np.nan)
    low, high, odd = (np.where(place == NONE, NONE, few.places[place]) for place in (low, high, odd))
    return Columns(start, stop, len(lefts), number, begins, ends - 1, low, high, odd, mean)


@dataclass(frozen=True)
class _Few:
    """The places that decide what columns show, ascending, and of each column the sum and the number of what is finite
    in it."""

    places: Indices
    sums: Values
    counts: Values


def _few(values: Values, begins: Indices, stop: int, blocks: Blocks) -> _Few:
    """A block that lies within a column is as good as the few of its points that could be told of: what remains is as
    long as the picture is wide, however long the curve is."""
    start = int(begins[0])
    first, last = -(-start // SIZE), min(stop // SIZE, len(blocks))
    within = np.ones(max(0, last - first), dtype=np.bool_)
    cut = begins // SIZE - first
    within[cut[(cut >= 0) & (cut < len(within))]] = False
    inner = np.flatnonzero(within) + first
    told = np.concatenate([blocks.low[inner], blocks.high[inner], *blocks.odd[:, inner]])
    keep = np.ones(stop - start, dtype=np.bool_)
    if len(within):
        keep[first * SIZE - start : last * SIZE - start].reshape(-1, SIZE)[within] = False
    singly = np.flatnonzero(keep) + start
    keep[told[told != NONE] - start] = True
    some = values[singly]
    finite = np.isfinite(some)
    # Each column has its first point singly: the block in which a column begins is cut.
    at = np.searchsorted(singly, begins)
    column = np.repeat(np.arange(len(begins)), np.diff(np.append(np.searchsorted(inner * SIZE, begins), len(inner))))
    with np.errstate(over="ignore", invalid="ignore"):
        sums: Values = np.add.reduceat(np.where(finite, some, 0.0), at)
        sums += np.bincount(column, blocks.sums[inner], len(begins))
    counts: Values = np.add.reduceat(finite, at, dtype=np.float64)
    counts += np.bincount(column, blocks.counts[inner], len(begins))
    return _Few(np.flatnonzero(keep) + start, sums, counts)


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
