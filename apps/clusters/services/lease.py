"""The right to watch: held by one process at a time, given up by not being renewed."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.clusters.models import WatchLease

LEASE = timedelta(seconds=6)


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


def give_up(name: str, holder: str, epoch: int) -> None:
    """Let the next one begin at once."""
    WatchLease.objects.filter(name=name, holder=holder, epoch=epoch).update(until=Now())
