"""`manage.py watch` as a process: one works, another waits, and a death is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from apps.clusters.models import Cluster, WatchLease


def start() -> subprocess.Popen[bytes]:
    url = urlsplit(os.environ["DATABASE_URL"])
    test_database = urlunsplit(url._replace(path=f"/{connection.settings_dict['NAME']}"))
    env = {**os.environ, "DATABASE_URL": test_database, "REDIS_URL": settings.REDIS_URL}
    return subprocess.Popen([sys.executable, "manage.py", "watch", "--skip-checks"], env=env, cwd=settings.BASE_DIR)


def epoch_within(seconds: float, wanted: int) -> WatchLease:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        held = WatchLease.objects.filter(name="watch", epoch=wanted).first()
        if held:
            return held
        time.sleep(0.1)
    raise AssertionError(f"No watch took epoch {wanted} within {seconds} s.")


@pytest.mark.django_db(transaction=True)
def test_a_killed_watch_is_followed_by_the_waiting_one() -> None:
    first, second = start(), start()
    started = [first, second]
    try:
        held = epoch_within(30, 1)
        time.sleep(4)
        assert WatchLease.objects.get().holder == held.holder
        holder, waiting = (first, second) if f"/{first.pid}/" in held.holder else (second, first)
        holder.kill()
        assert f"/{waiting.pid}/" in epoch_within(10, 2).holder
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(10) == 0
        assert WatchLease.objects.filter(until__lte=Now()).exists()  # given up: the next one need not wait
    finally:
        for process in started:
            process.kill()
            process.wait(10)


@pytest.mark.django_db(transaction=True)
def test_a_watch_that_stood_still_writes_nothing_after_its_successor_began() -> None:
    """Its probe is due the moment it goes on, long before it looks at its lease."""
    row = Cluster.objects.create(slug="away", name="Away", server="https://127.0.0.1:1")
    rows = Cluster.objects.for_system().filter(pk=row.pk)
    started = [start(), start()]
    try:
        first = next(process for process in started if f"/{process.pid}/" in epoch_within(30, 1).holder)
        (second,) = [process for process in started if process is not first]
        wait_until(lambda: rows.get().unreachable_since is not None)
        first.send_signal(signal.SIGSTOP)
        epoch_within(15, 2)
        second.send_signal(signal.SIGSTOP)
        rows.update(unreachable_since=None, unreachable_reason="")
        first.send_signal(signal.SIGCONT)
        assert first.wait(15) != 0
        assert rows.get().unreachable_since is None
    finally:
        for process in started:
            process.kill()
            process.wait(10)


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
