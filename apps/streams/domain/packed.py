"""Columns as a page's script takes them: 31 bytes each, so that a thousand pixels need no more than 32 KB."""

from __future__ import annotations

import numpy as np

from apps.streams.domain.columns import NONE, Columns, Steps, Values

NARROW = np.dtype([("first", "<u4"), ("after", "<u2", 3), ("value", "<f4", 4), ("mean", "<f4"), ("odd", "u1")])
WIDE = np.dtype([("first", "<f8"), ("after", "<f8", 3), ("value", "<f8", 4), ("mean", "<f8"), ("odd", "u1")])
"""A column: its first step counted from `start`; the steps of the lowest, the highest and the last counted from that;
the values of the four; the mean of what is finite; and in `odd` 1 for NaN, 2 for infinity, 4 for minus infinity. A
column without a finite value has NaN for both extremes, at its first step."""

FLOAT32_MAX = float(np.finfo(np.float32).max)
FLOAT32_TINY = float(np.finfo(np.float32).tiny)


def pack(columns: Columns, steps: Steps, values: Values) -> tuple[bytes, bool]:
    """The columns' bytes, and whether they are of the wide form: for steps or values that the narrow one cannot tell
    apart. The narrow form rounds values to seven digits."""
    low, high = (np.where(place == NONE, columns.first, place) for place in (columns.low, columns.high))
    four = np.stack([columns.first, low, high, columns.last], axis=1)
    told = values[four]
    told[columns.low == NONE, 1:3] = np.nan
    first = steps[columns.first] - columns.start
    after = steps[four[:, 1:]] - steps[columns.first][:, None]
    wide = _wide(told, columns.mean) or bool(len(first) and (first.max() >= 2**32 or after.max() >= 2**16))
    packed = np.empty(len(first), dtype=WIDE if wide else NARROW)
    packed["first"], packed["after"], packed["value"], packed["mean"] = first, after, told, columns.mean
    packed["odd"] = ((columns.odd != NONE) * np.array([[1], [2], [4]])).sum(axis=0)
    return packed.tobytes(), wide


def _wide(told: Values, mean: Values) -> bool:
    numbers = np.abs(np.concatenate([told.ravel(), mean]))
    numbers = numbers[np.isfinite(numbers)]
    return bool(((numbers > FLOAT32_MAX) | ((numbers < FLOAT32_TINY) & (numbers > 0))).any())
