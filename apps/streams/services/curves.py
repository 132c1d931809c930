"""Whole curves in this process's memory, so that any stretch of them can be drawn at once.

The rows are the truth. What is kept here is brought up to date by one query a request, which brings only what is new; a
process that has just started reads a curve whole when it is first asked for. What was not asked for longest is let go
when too much is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from django.db import connection

from apps.streams.domain.columns import Blocks, Columns, Steps, Values, columns, grown

KEPT_BYTES = 128 << 20
"""Eight curves of a million points."""
DRAWN_KEPT = 4
"""Pictures of a curve, of those asked for last: most people look at the whole of it while it grows."""
NEWS_LIMIT = 5000
"""More new points than this are cheaper read by reading the curve anew."""


class Drawn:
    """Columns of one curve, with the number of points that they are of, by start, stop and width. Threads share it:
    whatever one finds is of a curve that has since only grown at its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns: OrderedDict[tuple[int, int, int], tuple[int, Columns]] = OrderedDict()

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(found.nbytes for _points, found in self._columns.values())

    def get(self, of: tuple[int, int, int]) -> tuple[int, Columns] | None:
        return self._columns.get(of)

    def keep(self, of: tuple[int, int, int], found: tuple[int, Columns]) -> None:
        with self._lock:
            self._columns[of] = found
            self._columns.move_to_end(of)
            while len(self._columns) > DRAWN_KEPT:
                self._columns.popitem(last=False)


@dataclass(frozen=True)
class Seen:
    """The points of one series of one attempt at one moment."""

    steps: Steps
    values: Values
    blocks: Blocks
    drawn: Drawn

    def columns(self, start: int, stop: int, width: int) -> Columns:
        known = self.drawn.get((start, stop, width))
        if known is None or known[0] > len(self.steps):  # none, or of a later moment
            found = columns(self.steps, self.values, start, stop, width, self.blocks)
        elif known[0] == len(self.steps):
            return known[1]
        else:
            found = grown(known[1], self.steps, self.values, self.blocks)
        self.drawn.keep((start, stop, width), (len(self.steps), found))
        return found


@dataclass
class Kept:
    """One series of one attempt. Arrays only grow at their end, so that who reads a slice of them needs no lock.
    `version` is the row of what is known of the curve, and how many of its values changed."""

    steps: Steps
    values: Values
    points: int
    version: tuple[int, int]
    blocks: Blocks
    drawn: Drawn = field(default_factory=Drawn)

    def extend(self, news: list[tuple[int, float]]) -> None:
        end = self.points + len(news)
        if end > len(self.steps):
            room = max(end, self.points + self.points // 4, 256)
            for name in ("steps", "values"):
                old = getattr(self, name)
                grown = np.empty(room, dtype=old.dtype)
                grown[: self.points] = old[: self.points]
                setattr(self, name, grown)
        self.steps[self.points : end] = [step for step, _value in news]
        self.values[self.points : end] = [value for _step, value in news]
        self.points = end
        self.blocks = self.blocks.grown(self.values[:end])

    @property
    def seen(self) -> Seen:
        return Seen(self.steps[: self.points], self.values[: self.points], self.blocks, self.drawn)

    @property
    def nbytes(self) -> int:
        return self.steps.nbytes + self.values.nbytes + self.drawn.nbytes


@dataclass
class _Curves:
    """A series' attempts; the lock is for whoever brings them up to date."""

    attempts: dict[int, Kept] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    nbytes: int = 0


_kept: OrderedDict[tuple[str, str], _Curves] = OrderedDict()
_kept_lock = threading.Lock()


def curves_of(topic: str, series: str) -> Mapping[int, Seen]:
    """All points of a series by attempt, steps ascending, as the database has them now."""
    with _kept_lock:
        curves = _kept.setdefault((topic, series), _Curves())
        _kept.move_to_end((topic, series))
    with curves.lock:
        _refresh(curves, topic, series)
        found = {attempt: kept.seen for attempt, kept in sorted(curves.attempts.items())}
        curves.nbytes = sum(kept.nbytes for kept in curves.attempts.values())
    _let_go()
    return found


def _let_go() -> None:
    with _kept_lock:
        while len(_kept) > 1 and sum(curves.nbytes for curves in _kept.values()) > KEPT_BYTES:
            _kept.popitem(last=False)


# One statement, and so one moment: as many points as `points` says are there, neither more nor less.
_NEWS = """
SELECT curve.attempt, curve.points, curve.id, curve.replaced, news.step, news.value
FROM streams_curve AS curve
LEFT JOIN unnest(%s::bigint[], %s::bigint[]) AS known(attempt, step) ON known.attempt = curve.attempt
LEFT JOIN LATERAL (
    SELECT step, value FROM streams_point
    WHERE topic = curve.topic AND series = curve.series AND attempt = curve.attempt AND step > known.step
    ORDER BY step LIMIT %s
) AS news ON true
WHERE curve.topic = %s AND curve.series = %s ORDER BY curve.attempt, news.step
"""


def _refresh(curves: _Curves, topic: str, series: str) -> None:
    known = {attempt: int(kept.steps[kept.points - 1]) for attempt, kept in curves.attempts.items() if kept.points}
    with connection.cursor() as cursor:
        cursor.execute(_NEWS, [list(known), list(known.values()), NEWS_LIMIT, topic, series])
        rows = cursor.fetchall()
    told: dict[int, tuple[int, tuple[int, int], list[tuple[int, float]]]] = {}
    for attempt, points, row, replaced, step, value in rows:
        news = told.setdefault(attempt, (points, (row, replaced), []))[2]
        if step is not None:
            news.append((step, value))
    for attempt in curves.attempts.keys() - told.keys():
        del curves.attempts[attempt]
    for attempt, (points, version, news) in told.items():
        kept = curves.attempts.get(attempt)
        if kept and kept.version == version and kept.points + len(news) == points:
            kept.extend(news)
        else:  # not known yet, or something came in before the end of what is
            curves.attempts[attempt] = _read(topic, series, attempt, version)


CHUNK = 500_000
"""Points that are read at once. One value of many is a thousandth of the work of as many rows."""
_ROW = np.dtype([("step", ">i8"), ("value", ">f8")])

_WHOLE = """
SELECT string_agg(int8send(step) || float8send(value), ''::bytea) FROM (
    SELECT step, value FROM streams_point
    WHERE topic = %s AND series = %s AND attempt = %s AND step > %s ORDER BY step LIMIT %s
) AS points
"""


def _read(topic: str, series: str, attempt: int, version: tuple[int, int]) -> Kept:
    parts = [np.empty(0, dtype=_ROW)]
    after, is_last = -1, False
    with connection.cursor() as cursor:
        while not is_last:
            cursor.execute(_WHOLE, [topic, series, attempt, after, CHUNK])
            part = np.frombuffer(cursor.fetchone()[0] or b"", dtype=_ROW)
            parts.append(part)
            is_last = len(part) < CHUNK
            after = after if is_last else int(part["step"][-1])
    rows = np.concatenate(parts)
    values = rows["value"].astype(np.float64)
    return Kept(rows["step"].astype(np.int64), values, len(rows), version, Blocks.of(values))
