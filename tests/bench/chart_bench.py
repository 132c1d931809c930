"""A curve of a million points at any zoom: the request from the session cookie to the last byte, rights included, in the
process that serves it; `chart-cpu` is that process's share of it, which a crowded machine changes less."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from tests.bench.database import test_database
from tests.bench.figure import Figure

POINTS, WIDTH, REQUESTS = 1_000_000, 1000, 1000


def figures() -> Iterator[Figure]:
    with test_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from apps.streams import services as streams
    from tests import factories, pages

    world = factories.World.make()
    job = factories.job(world.scientist, world.place)
    _fill(job.topic)
    client, path = pages.browser(world.scientist), f"/api/v1/jobs/{job.pk}/points?width={WIDTH}"
    binary = {"Accept": "application/octet-stream"}

    def asked(query: str = "") -> tuple[float, int]:
        start = time.perf_counter()
        response = client.get(path + query, headers=binary)
        taken = (time.perf_counter() - start) * 1000
        assert response.status_code == 200
        return taken, len(response.content)

    client.get("/api/v1/jobs", headers={"Accept": "application/json"})  # warms connections
    cold, _size = asked()
    chance = random.Random(4210)
    taken, cpu, sizes, live = [], [], [], []
    for turn in range(REQUESTS):
        span = int(POINTS ** chance.uniform(0.3, 1))
        start = chance.randrange(POINTS - span + 1)
        before = time.thread_time()
        one, size = asked(f"&from={start}&to={start + span - 1}" if turn % 4 else "")
        cpu.append((time.thread_time() - before) * 1000)
        taken.append(one)
        sizes.append(size)
    for step in range(200):
        streams.record_points(job.topic, 1, [("loss", POINTS + step, 1.0, _now())])
        live.append(asked()[0])
    yield Figure("chart-p50", _quantile(taken, 0.5), "ms", None, 10)
    yield Figure("chart-p99", _quantile(taken, 0.99), "ms", None, 10)
    yield Figure("chart-live-p99", _quantile(live, 0.99), "ms", None, 10)
    yield Figure("chart-cpu-p99", _quantile(cpu, 0.99), "ms", None, 10)
    yield Figure("chart-bytes", max(sizes) / 1024, "KB", None, 32)
    yield Figure("chart-cold", cold, "ms", None, 1000)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _now() -> Any:
    from django.utils import timezone

    return timezone.now()


def _fill(topic: str) -> None:
    """A million points with noise, some spikes and some values that are no number."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.5)")
        cursor.execute(
            """INSERT INTO streams_point (topic, series, attempt, step, value, at)
            SELECT %s, 'loss', 1, step,
                CASE step %% 90001 WHEN 7 THEN 'NaN' WHEN 8 THEN 'Infinity' ELSE 2 + random() END, now()
            FROM generate_series(0, %s) AS step""",
            [topic, POINTS - 1],
        )
        cursor.execute(
            "INSERT INTO streams_curve (topic, series, attempt, points, replaced) VALUES (%s, 'loss', 1, %s, 0)",
            [topic, POINTS],
        )
        cursor.execute("ANALYZE")  # as autovacuum does within a minute of so many rows
