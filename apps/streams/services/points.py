"""The points of training curves: written once, read thinned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Max, Min

from apps.streams.domain.downsample import thin
from apps.streams.domain.frames import jsonable
from apps.streams.models import Point

Reading = tuple[str, int, float, datetime]
"""Series, step, value, time."""

STEP_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class LastPoint:
    attempt: int
    step: int
    value: float
    at: datetime


def record_points(topic: str, attempt: int, readings: Iterable[Reading]) -> None:
    """Store points; a step that is already known keeps its value."""
    rows = [
        Point(topic=topic, series=series[:40], attempt=attempt, step=step, value=value, at=at)
        for series, step, value, at in readings
        if 0 <= step <= STEP_LIMIT
    ]
    Point.objects.bulk_create(rows, ignore_conflicts=True, batch_size=2000)


def series_names(topic: str) -> list[str]:
    """The series a topic has points of."""
    return list(Point.objects.filter(topic=topic).values_list("series", flat=True).order_by("series").distinct())


def series(topic: str, name: str, *, width: int = 1000) -> list[dict[str, Any]]:
    """One curve for each attempt: `{"attempt", "steps": […], "values": […], "total"}`, at most about `width` points.

    Values that are no numbers come as "NaN", "Infinity", "-Infinity"; spikes survive (MinMaxLTTB).
    """
    rows = Point.objects.filter(topic=topic, series=name).order_by("attempt", "step")
    table = np.array(list(rows.values_list("attempt", "step", "value")), dtype=np.dtype("i8,i8,f8"))
    curves = []
    for attempt in np.unique(table["f0"]):
        part = table[table["f0"] == attempt]
        steps, values = np.ascontiguousarray(part["f1"]), np.ascontiguousarray(part["f2"])
        kept = thin(steps, values, max(3, min(width, 5000)))
        curves.append(
            {
                "attempt": int(attempt),
                "steps": steps[kept].tolist(),
                "values": [jsonable(value) for value in values[kept].tolist()],
                "total": len(steps),
            }
        )
    return curves


def spans(topic: str, name: str) -> dict[int, tuple[int, int]]:
    """The first and the last step of a series, by attempt."""
    rows = Point.objects.filter(topic=topic, series=name).order_by().values_list("attempt")
    return {attempt: (first, last) for attempt, first, last in rows.annotate(Min("step"), Max("step"))}


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
