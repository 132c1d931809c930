"""Looks at rows by several workers that are slow, stopped, killed or wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F, QuerySet

from apps.catalog.services.background import transfer_rows
from apps.clusters.services import lookout
from apps.jobs.models import Job
from apps.jobs.services.background import job_rows
from apps.serving.services.background import deployment_rows
from tests import factories
from tests.catalog import made as catalog
from tests.factories import World
from tests.serving import made as serving

Rows = QuerySet[Any]
HOUR = timedelta(hours=1)


def _job(world: World) -> Rows:
    return job_rows(factories.job(world.scientist, world.place).pk)


def _transfer(world: World) -> Rows:
    return transfer_rows(catalog.transfer_of(catalog.version(world.scientist, world.place)).pk)


def _deployment(world: World) -> Rows:
    version = serving.version(world.scientist, world.place)
    return deployment_rows(serving.deployment(world.scientist, version).pk)


@pytest.fixture(params=[_job, _transfer, _deployment], ids=["job", "transfer", "deployment"])
def rows(request: pytest.FixtureRequest, world: World) -> Rows:
    """One row of each kind that is looked at."""
    found: Rows = request.param(world)
    return found


def pass_time(rows: Rows, seconds: int) -> None:
    """To the row, it is so many seconds later."""
    span = timedelta(seconds=seconds)
    rows.update(lease_until=F("lease_until") - span, due_at=F("due_at") - span)


def is_due(rows: Rows) -> bool:
    return lookout.due(rows) == [rows.get().pk]


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.01)


def test_a_dead_workers_row_is_due_after_fifteen_seconds(rows: Rows) -> None:
    assert is_due(rows)
    assert lookout.claim(rows)
    pass_time(rows, 12)
    assert not is_due(rows)
    pass_time(rows, 3)
    assert is_due(rows)
    assert lookout.claim(rows)


def test_a_look_asked_for_meanwhile_is_not_lost_by_a_renewal(rows: Rows) -> None:
    lease = lookout.claim(rows)
    assert lease
    assert lookout.claim(rows) is None, "somebody looks; word is left"
    assert lease.renew()
    assert not is_due(rows), "nobody else is called while somebody looks"
    assert lease.let_go(HOUR), "the word that was left makes the first look again"
    assert is_due(rows)


def test_a_row_is_due_when_its_step_says_or_never(rows: Rows) -> None:
    assert not lookout.look(rows, lambda _: timedelta(seconds=30))
    pass_time(rows, 28)
    assert not is_due(rows)
    pass_time(rows, 2)
    assert is_due(rows)
    assert not lookout.look(rows, lambda _: None)
    assert rows.get().due_at is None


def test_a_look_that_breaks_comes_again_in_a_minute_and_at_once_when_asked_for(rows: Rows) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lookout.look(rows, broken)
    pass_time(rows, 58)
    assert not is_due(rows)
    pass_time(rows, 2)
    assert is_due(rows)

    def asked_for(row: Any) -> None:
        assert lookout.claim(rows) is None
        broken(row)

    with pytest.raises(ZeroDivisionError):
        lookout.look(rows, asked_for)
    assert is_due(rows)


def _stands_still(rows: Rows) -> bool:
    """Whether nobody renews the lease, for as long as that takes many times."""
    before = rows.get().lease_until
    time.sleep(20 * lookout.RENEW_SECONDS)
    return rows.get().lease_until == before


@pytest.mark.django_db(transaction=True)
def test_looks_at_once_are_kept_by_one_thread_and_none_is_left_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread for each look costs more than most looks."""
    monkeypatch.setattr(lookout, "RENEW_SECONDS", 0.1)
    all_rows = [_job(world) for _ in range(4)]
    looking, seen = threading.Barrier(4), []

    def step(row: Any) -> timedelta:
        first = row.lease_until
        looking.wait()
        wait_until(lambda: Job.objects.for_system().get(pk=row.pk).lease_until > first)
        seen.append([thread.name for thread in threading.enumerate()].count("leases"))
        return HOUR

    def work(rows: Rows) -> None:
        lookout.look(rows, step)
        connection.close()

    threads = [threading.Thread(target=work, args=(rows,)) for rows in all_rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 4
    wait_until(lambda: "leases" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.django_db(transaction=True)
def test_a_long_look_keeps_its_lease_and_a_hanging_one_does_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(lookout, "RENEWALS", 5)
    rows, seen = _job(world), []

    def step(row: Any) -> timedelta:
        first = row.lease_until
        wait_until(lambda: rows.get().lease_until > first)
        wait_until(lambda: _stands_still(rows))
        now = rows.get()
        assert now.due_at == now.lease_until, "a worker that dies now leaves a row that is due when its lease is over"
        pass_time(rows, 15)
        seen.append(is_due(rows))
        return HOUR

    assert not lookout.look(rows, step)
    assert seen == [True]


@pytest.mark.django_db(transaction=True)
def test_of_eight_workers_one_looks_and_hears_of_the_others(world: World) -> None:
    rows = _job(world)
    start, refused = threading.Barrier(8), threading.Semaphore(0)
    looks, answers = [], []

    def step(row: Any) -> timedelta:
        looks.append(row.pk)
        for _ in range(7):
            assert refused.acquire(timeout=20), "another worker looks as well"
        return HOUR

    def work() -> None:
        start.wait()
        answers.append(lookout.look(rows.all(), step))
        refused.release()
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(looks), sorted(answers)) == (1, [False] * 7 + [True])


WORKER = """
import sys, datetime, django
django.setup()
from apps.clusters.services import lookout
from apps.jobs.services.background import job_rows
lookout.LEASE, lookout.RENEW_SECONDS = datetime.timedelta(seconds=1), 0.1
def step(row):
    print("looking", flush=True)
    sys.stdin.readline()
    return datetime.timedelta(hours=1)
print(lookout.look(job_rows(sys.argv[1]), step), flush=True)
"""


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_stood_still_leaves_its_successors_lease_alone(world: World) -> None:
    rows = _job(world)
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, rows.get().pk],
        env={**os.environ, "DATABASE_URL": url.geturl()},
        cwd=settings.BASE_DIR,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdout
        assert worker.stdout.readline() == "looking\n"
        worker.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_due(rows))
        ours = lookout.claim(rows)
        assert ours
        worker.send_signal(signal.SIGCONT)
        assert worker.communicate("go on\n", timeout=20)[0] == "False\n"
    row = rows.get()
    assert (row.lease_until, row.due_at) == (ours.until, ours.until)
    assert not ours.let_go(HOUR)
