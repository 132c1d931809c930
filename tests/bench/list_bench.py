"""A page of a list of 10,000 jobs against one of 100: the list pages by key, so its length must not matter."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

from deploy.local.testing import serve
from tests.bench.figure import Figure

ROUNDS = 15
FEW, MANY = 100, 10_000


def figures() -> Iterator[Figure]:
    from tests import conftest  # noqa: F401  (the test environment: servers and settings)

    serve("postgres", "valkey")
    import django
    from django.test.utils import get_runner  # noqa: F401

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "maasportal.settings")
    name = connection.creation.create_test_db(verbosity=0)
    try:
        yield from _measure()
    finally:
        connection.close_pool()
        connection.creation.destroy_test_db(name, verbosity=0)


def _measure() -> Iterator[Figure]:
    from django.test import Client

    from apps.accounts.domain import Role
    from apps.accounts.models import Membership
    from apps.jobs.models import Job
    from tests import factories

    world = factories.World.make()
    stranger = world.stranger()
    _fill(Job, world.scientist, world.place, MANY)
    _fill(Job, stranger, world.other_place, FEW)
    assert Membership.objects.filter(user=stranger, role=Role.SCIENTIST).count() == 1
    arms = {"many": _client(Client(), world.scientist), "few": _client(Client(), stranger)}
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


def _fill(model, owner, placement, count):  # noqa: ANN001, ANN202
    document = {"template": "charlm", "name": "n", "ranks": 2}
    model.objects.bulk_create(
        [
            model(tenant=placement.tenant, owner=owner, placement=placement, document=document, name=f"job {n}", gpus=2,
                  phase="succeeded" if n % 50 else "running")
            for n in range(count)
        ]
    )  # fmt: skip


def _client(client, user):  # noqa: ANN001, ANN202
    client.force_login(user)
    return client
