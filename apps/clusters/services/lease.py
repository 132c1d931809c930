"""The right to watch: held by one process at a time, given up by not being renewed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.clusters.models import WatchLease

LEASE = timedelta(seconds=6)
STALLED = "5s"
"""A fenced write that stands still in its transaction is given up by the database: the next holder waits for it."""


class LeaseLost(Exception):
    """Another process watches now, or the database cannot be asked: this one must stop at once."""


@transaction.atomic
def take(name: str, holder: str) -> int | None:
    """The epoch, if the lease was free or over; None while somebody else holds it. Times are the database's."""
    _, created = WatchLease.objects.get_or_create(name=name, defaults={"holder": holder, "until": Now() + LEASE})
    if not created:
        over = WatchLease.objects.filter(name=name, until__lt=Now())
        if not over.update(holder=holder, until=Now() + LEASE, epoch=F("epoch") + 1):
            return None
    return WatchLease.objects.get(name=name).epoch


def renew(name: str, holder: str, epoch: int) -> bool:
    """False when the lease has changed hands."""
    mine = WatchLease.objects.filter(name=name, holder=holder, epoch=epoch)
    return bool(mine.update(until=Now() + LEASE))


@contextmanager
def fence(name: str, epoch: int) -> Iterator[None]:
    """A transaction that only the holder of this epoch can have: the lease does not change hands before it is over.
    Raises LeaseLost where it has."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [STALLED])
            cursor.execute("SELECT 1 FROM clusters_watchlease WHERE name = %s AND epoch = %s FOR SHARE", [name, epoch])
            if cursor.fetchone() is None:
                raise LeaseLost
        yield


def give_up(name: str, holder: str, epoch: int) -> None:
    """Let the next one begin at once."""
    WatchLease.objects.filter(name=name, holder=holder, epoch=epoch).update(until=Now())
