"""A page of a list of 10,000 jobs against one of 100: the list pages by key, so its length must not matter."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from tests.bench.database import test_database
from tests.bench.figure import Figure

ROUNDS = 15
FEW, MANY = 100, 10_000


def figures() -> Iterator[Figure]:
    with test_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from django.db import connection

    from tests import factories, pages

    world = factories.World.make()
    stranger = world.stranger()
    _fill(world.scientist, world.place, MANY)
    _fill(stranger, world.other_place, FEW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as autovacuum does within a minute of so many rows
    arms = {"many": pages.browser(world.scientist), "few": pages.browser(stranger)}
    taken: dict[str, list[float]] = {"many": [], "few": []}
    for turn in range(ROUNDS + 2):
        for arm, client in arms.items():
            start = time.perf_counter()
            response = client.get("/jobs/")
            if turn >= 2:  # the first two warm templates and connections
                taken[arm].append((time.perf_counter() - start) * 1000)
            assert response.status_code == 200
    many, few = (statistics.median(taken[arm]) for arm in ("many", "few"))
    yield Figure("list", many, "ms", few, 1.3)


def _fill(owner: Any, placement: Any, count: int) -> None:
    """Jobs of which one in fifty still runs."""
    from apps.jobs.models import Job

    document = {"template": "charlm", "name": "n", "ranks": 2}
    phases = ["running", *["succeeded"] * 49]
    common = {"tenant": placement.tenant, "owner": owner, "placement": placement, "document": document, "gpus": 2}
    Job.objects.bulk_create([Job(name=f"job {number}", phase=phases[number % 50], **common) for number in range(count)])
