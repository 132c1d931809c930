"""The points of training curves: written once, read in the columns of a picture."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction

from apps.streams.domain.columns import rounded
from apps.streams.domain.frames import jsonable
from apps.streams.domain.origins import Origin
from apps.streams.domain.packed import pack
from apps.streams.models import Curve, Point
from apps.streams.services.curves import Seen, curves_of

Reading = tuple[str, int, float, datetime]
"""Series, step, value, time."""

STEP_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class LastPoint:
    attempt: int
    step: int
    value: float
    at: datetime


# A point read from a log (origin 0) takes the place of any other; else the first stays. (Only a row that was there has
# an xmax.) Points are counted in the statement that writes them: see Curve.
_RECORD = """
WITH told AS (
    SELECT DISTINCT ON (series, step) * FROM unnest(%s::text[], %s::bigint[], %s::float8[], %s::timestamptz[])
        WITH ORDINALITY AS given(series, step, value, at, place)
    ORDER BY series, step, place
), written AS (
    INSERT INTO streams_point AS point (topic, series, attempt, step, value, at, origin)
    SELECT %s, series, %s, step, value, at, %s FROM told ORDER BY series, step
    ON CONFLICT (topic, series, attempt, step) DO UPDATE SET value = excluded.value, at = excluded.at, origin = 0
        WHERE point.origin <> 0 AND excluded.origin = 0
    RETURNING series, xmax = 0 AS is_new
), counted AS (
    INSERT INTO streams_curve AS curve (topic, series, attempt, points, replaced, origins)
    SELECT %s, series, %s, count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new), %s
    FROM written GROUP BY series ORDER BY series
    ON CONFLICT (topic, series, attempt) DO UPDATE
    SET points = curve.points + excluded.points, replaced = curve.replaced + excluded.replaced,
        origins = curve.origins | excluded.origins
)
SELECT count(*) FROM written
"""
BATCH = 2000


def record_points(topic: str, attempt: int, readings: Iterable[Reading], *, origin: Origin = Origin.LOG) -> int:
    """Store points and tell how many were new; a step that is already known keeps its value, unless that came another
    way and this one was read from a log."""
    stored = 0
    rows = [(series[:40], step, value, at) for series, step, value, at in readings if 0 <= step <= STEP_LIMIT]
    with transaction.atomic(), connection.cursor() as cursor:
        for begin in range(0, len(rows), BATCH):
            given = [list(column) for column in zip(*rows[begin : begin + BATCH], strict=True)]
            cursor.execute(_RECORD, [*given, topic, attempt, origin, topic, attempt, origin.bit])
            stored += int(cursor.fetchone()[0])
    return stored


@dataclass(frozen=True)
class Told:
    """One point as it is kept."""

    series: str
    attempt: int
    step: int
    value: float
    at: datetime
    origin: Origin


PAGE = 20_000


def told(topic: str, names: Sequence[str] = (), start: int = 0, stop: int = STEP_LIMIT) -> Iterator[Told]:
    """Every point between two steps, both included, of these series (default: all), by series, attempt and step. They
    are read in pages, so that a slow reader holds no connection."""
    rows = Curve.objects.filter(topic=topic).order_by("series", "attempt").values_list("series", "attempt")
    for series, attempt in rows.filter(series__in=names) if names else rows:
        points = Point.objects.filter(topic=topic, series=series, attempt=attempt, step__lte=stop).order_by("step")
        after = start - 1
        while page := points.filter(step__gt=after).values_list("step", "value", "at", "origin")[:PAGE]:
            for step, value, at, origin in page:
                yield Told(series, attempt, step, value, at, Origin(origin))
            after = step


def has_pushed(topic: str, attempt: int) -> bool:
    """Whether any point of an attempt was pushed."""
    curves = Curve.objects.filter(topic=topic, attempt=attempt)
    return any(bits & Origin.PUSHED.bit for bits in curves.values_list("origins", flat=True))


def curves_known(topic: str) -> list[Curve]:
    """What is known of a topic's curves, by series and attempt."""
    return list(Curve.objects.filter(topic=topic).order_by("series", "attempt"))


class LoggedPoint(NamedTuple):
    series: str
    attempt: int
    step: int
    value: float
    at: datetime


# A comparison of rows is one range of the index; the same said with OR would read a series from its beginning.
_LOGGED = """
SELECT asked.series, later.attempt, later.step, later.value, later.at
FROM unnest(%s::text[]) AS asked(series), LATERAL (
    SELECT attempt, step, value, at FROM streams_point
    WHERE topic = %s AND series = asked.series AND (attempt, step) > (%s, %s) AND origin = 0
    ORDER BY attempt DESC, step DESC LIMIT %s
) AS later
"""


def logged(topic: str, names: Collection[str], *, attempt: int = 0, step: int = -1, limit: int) -> list[LoggedPoint]:
    """The points of some series that were read from a log: those of an attempt behind a step, and all of later
    attempts, by series, the newest first. Where there are more than `limit` of a series, its newest."""
    with connection.cursor() as cursor:
        cursor.execute(_LOGGED, [list(names), topic, attempt, step, limit])
        return [LoggedPoint(*row) for row in cursor.fetchall()]


def series_names(topic: str) -> list[str]:
    """The series a topic has points of."""
    return sorted(set(Curve.objects.filter(topic=topic).values_list("series", flat=True)))


@dataclass(frozen=True)
class Stretch:
    """What is asked of a curve: the steps from `start` to `stop`, both included (None: where it begins or ends), in so
    many columns."""

    start: int | None = None
    stop: int | None = None
    width: int = 1000


def _within(curves: Mapping[int, Seen], stretch: Stretch) -> tuple[int, int]:
    """The stretch's first and last step. Attempts stand in one picture, so it is one for all. Where a curve's end is
    asked for, it is up to a 512th more, so that the columns of a curve that grows stay where they are."""
    ends = [(int(seen.steps[0]), int(seen.steps[-1])) for seen in curves.values() if len(seen.steps)]
    start = min((first for first, _last in ends), default=0) if stretch.start is None else stretch.start
    if stretch.stop is None:
        stop = max(start, max((last for _first, last in ends), default=0))
        return max(0, start), min(rounded(max(0, start), stop), STEP_LIMIT)
    return max(0, start), min(max(start, stretch.stop), STEP_LIMIT)


def series(topic: str, name: str, stretch: Stretch = Stretch()) -> list[dict[str, Any]]:
    """A stretch of a series, one curve for each attempt: `{"attempt", "steps": […], "values": […], "total"}`. Of each
    column come the first, the last, the lowest and the highest point, and the first of each value that is no number
    ("NaN", "Infinity", "-Infinity"). `total` is the whole attempt's."""
    curves = curves_of(topic, name)
    start, stop = _within(curves, stretch)
    found = []
    for attempt, seen in curves.items():
        kept = seen.columns(start, stop, stretch.width).kept()
        values = [jsonable(value) for value in seen.values[kept].tolist()]
        steps = seen.steps[kept].tolist()
        found.append({"attempt": attempt, "steps": steps, "values": values, "total": len(seen.steps)})
    return found


def packed(topic: str, name: str, stretch: Stretch = Stretch()) -> bytes:
    """The same for a page's script: the length of a head (four bytes, the lowest first), the head as JSON, then each
    attempt's columns (see `domain.packed`). The head: `{"start", "stop", "width", "attempts": [{"attempt", "total",
    "columns", "wide"}]}`."""
    curves = curves_of(topic, name)
    start, stop = _within(curves, stretch)
    attempts, bodies = [], []
    for attempt, seen in curves.items():
        cut = seen.columns(start, stop, stretch.width)
        body, wide = pack(cut, seen.steps, seen.values)
        attempts.append({"attempt": attempt, "total": len(seen.steps), "columns": len(cut.number), "wide": wide})
        bodies.append(body)
    head = {"start": start, "stop": stop, "width": stretch.width, "attempts": attempts}
    told = json.dumps(head, separators=(",", ":")).encode()
    return b"".join([len(told).to_bytes(4, "little"), told, *bodies])


_SPANS = """
SELECT curve.attempt, ends.first, ends.last FROM streams_curve AS curve, LATERAL (
    SELECT min(step) AS first, max(step) AS last FROM streams_point
    WHERE topic = curve.topic AND series = curve.series AND attempt = curve.attempt
) AS ends WHERE curve.topic = %s AND curve.series = %s AND ends.first IS NOT NULL
"""


def spans(topic: str, name: str) -> dict[int, tuple[int, int]]:
    """The first and the last step of a series, by attempt."""
    with connection.cursor() as cursor:
        cursor.execute(_SPANS, [topic, name])
        return {attempt: (first, last) for attempt, first, last in cursor.fetchall()}


_LATEST = """
SELECT asked.topic, last.attempt, last.step, last.value, last.at
FROM unnest(%s::text[]) AS asked(topic), LATERAL (
    SELECT attempt, step, value, at FROM streams_point
    WHERE topic = asked.topic AND series = %s ORDER BY attempt DESC, step DESC LIMIT 1
) AS last
"""


def latest(topics: Sequence[str], name: str) -> dict[str, LastPoint]:
    """The newest point of a series for each topic that has one, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, [list(topics), name])
        return {row[0]: LastPoint(*row[1:]) for row in cursor.fetchall()}


_RECENT = """
SELECT asked.topic, last.attempt, last.step, last.value, last.at
FROM unnest(%s::text[]) AS asked(topic), LATERAL (
    SELECT attempt, step, value, at FROM streams_point
    WHERE topic = asked.topic AND series = %s ORDER BY attempt DESC, step DESC LIMIT %s
) AS last
"""


def recent(topics: Sequence[str], name: str, count: int = 60) -> dict[str, list[LastPoint]]:
    """The last points of a series for each topic that has some, oldest first, in one query; those of the newest attempt
    only."""
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, [list(topics), name, count])
        rows = cursor.fetchall()
    found: dict[str, list[LastPoint]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(LastPoint(*row[1:]))
    newest = {topic: max(point.attempt for point in points) for topic, points in found.items()}
    return {
        topic: sorted((p for p in points if p.attempt == newest[topic]), key=lambda p: p.step)
        for topic, points in found.items()
    }
