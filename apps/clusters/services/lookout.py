"""Looks at rows that are queues of their own: who may look, for how long, and when somebody has to look again.

Such a row has `due_at`, when to look next, and `lease_until`, until when somebody does. Times are the database's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import structlog
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import Case, F, Model, Q, QuerySet, When
from django.db.models.functions import Now

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=Model)

LEASE = timedelta(seconds=15)
"""After it, the row of a dead worker is due again. It outlives two renewals that fail."""
RENEW_SECONDS = 4.0
TICKS = 8
"""In that time it is seen so often whether a lease must be renewed."""
RENEWALS = 30
"""A look that takes longer than so many hangs; nobody is kept from looking by it any more."""
BROKEN = timedelta(minutes=1)
"""Until the next look after one that raised: a fault of ours does not go away by being repeated at once."""
MOST = 200


def due(rows: QuerySet[M]) -> list[str]:
    """Ids of those of some rows whose time has come and that nobody looks at; those that wait longest come first."""
    ripe = rows.filter(Q(lease_until=None) | Q(lease_until__lt=Now()), due_at__lte=Now())
    return list(ripe.order_by("due_at").values_list("pk", flat=True)[:MOST])


def waiting(rows: QuerySet[M]) -> list[str]:
    """Ids of those of some rows that found nobody to ask (they count `failures`), those that were there first first.
    Their pauses begin anew and are over: they are found by the sweep, should nobody hear of them."""
    found = list(rows.filter(failures__gt=0).order_by("pk").values_list("pk", flat=True))
    rows.model._default_manager.filter(pk__in=found).update(failures=0, due_at=Now())
    return found


def look(rows: QuerySet[M], step: Callable[[M], timedelta | None]) -> bool:
    """Take a step with the one row of `rows`, unless somebody does: then leave word that it must be looked at again.

    `step` returns after what time to look again, None for never. True if somebody asked for a look meanwhile: do it
    now.
    """
    lease = claim(rows)
    if lease is None:
        return False
    after: timedelta | None = BROKEN
    try:
        with _keeper.keeping(lease):
            after = step(lease.row)
    finally:
        asked = lease.let_go(after)
    return asked


@dataclass
class Lease(Generic[M]):
    """The right to look at a row. No two leases of a row are ever `until` the same time, so each knows its own: one
    that was lost, because its process stood still, changes nothing of its successor's."""

    rows: QuerySet[M]
    row: M
    until: datetime

    def renew(self) -> bool:
        """False when it was lost. A look that somebody asked for meanwhile stays asked for."""
        asked_or_not = Case(When(due_at=self.until, then=Now() + LEASE), default=F("due_at"))
        with transaction.atomic():
            if not self._mine().update(lease_until=Now() + LEASE, due_at=asked_or_not):
                return False
            self.until = _until(self.rows)
        return True

    def let_go(self, after: timedelta | None) -> bool:
        """Give it back and say after what time to look again; True if somebody asked for a look meanwhile."""
        again = None if after is None else Now() + after
        if self._mine().filter(due_at=self.until).update(lease_until=None, due_at=again):
            return False
        return bool(self._mine().update(lease_until=None))

    def _mine(self) -> QuerySet[M]:
        return self.rows.filter(lease_until=self.until)


def claim(rows: QuerySet[M]) -> Lease[M] | None:
    """The lease of the one row of `rows`; None where there is none, or where somebody else has it and was left word."""
    free = rows.filter(Q(lease_until=None) | Q(lease_until__lt=Now()))
    with transaction.atomic():
        if free.update(lease_until=Now() + LEASE, due_at=Now() + LEASE):
            row = rows.get()
            return Lease(rows, row, row.lease_until)  # type: ignore[attr-defined]
    rows.update(due_at=Now())
    return None


def _until(rows: QuerySet[M]) -> datetime:
    until: datetime = rows.values_list("lease_until", flat=True).get()
    return until


@dataclass(eq=False)
class _Kept:
    """A look that lasts. Whoever has `turn` may touch its lease."""

    lease: Lease[Any]
    due: float
    left: int = field(default_factory=lambda: RENEWALS)
    turn: threading.Lock = field(default_factory=threading.Lock)
    is_over: bool = False


class _Keeper:
    """Renews the leases of this process's looks, in one thread for all of them: nearly all looks end before there is
    anything to renew. It runs while there are looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: set[_Kept] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def keeping(self, lease: Lease[Any]) -> Iterator[None]:
        """Renew the lease while the block runs."""
        kept = _Kept(lease, time.monotonic() + RENEW_SECONDS)
        with self._lock:
            self._kept.add(kept)
            if self._thread is None or not self._thread.is_alive():  # a forked worker has none of its parent's threads
                self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._kept.discard(kept)
            with kept.turn:
                kept.is_over = True

    def _run(self) -> None:
        while True:
            time.sleep(RENEW_SECONDS / TICKS)
            with self._lock:
                if not self._kept:
                    self._thread = None
                    return
                due = [kept for kept in self._kept if kept.due <= time.monotonic()]
            for kept in due:
                with kept.turn:
                    goes_on = kept.is_over or self._renew(kept)
                if not goes_on:
                    with self._lock:
                        self._kept.discard(kept)

    def _renew(self, kept: _Kept) -> bool:
        """False where it is renewed no more."""
        row = kept.lease.row.pk
        kept.due, kept.left = time.monotonic() + RENEW_SECONDS, kept.left - 1
        try:
            if not kept.lease.renew():
                log.warning("lease_lost", row=row)
                return False
        except DatabaseError as error:
            log.warning("lease_unrenewed", row=row, error=str(error)[:200])
        finally:
            connection.close()  # this thread's own
        if kept.left <= 0:
            log.warning("look_hangs", row=row)
        return kept.left > 0


_keeper = _Keeper()
