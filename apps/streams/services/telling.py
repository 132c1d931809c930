"""Telling open pages of points that came another way than with a log's lines."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from apps.streams.domain.frames import LivePoint, PointsFrame, Source, jsonable
from apps.streams.services.buffer import append
from apps.streams.services.points import Reading


def tell_points(topic: str, attempt: int, readings: Sequence[Reading]) -> None:
    """Send them after commit. What is lost on the way costs freshness only."""
    points = [
        LivePoint(series, step, jsonable(value), int(at.timestamp() * 1000)) for series, step, value, at in readings
    ]
    frame = PointsFrame(Source(None, attempt, ""), points)
    transaction.on_commit(lambda: append(topic, frame), robust=True)
