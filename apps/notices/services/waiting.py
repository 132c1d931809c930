"""What waits for a person's hand: asked of every app that has something to decide, to go on with or to mend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from django.db.models import Model, QuerySet

from apps.accounts.types import Actor
from apps.notices.domain import Waiting

Row = TypeVar("Row", bound=Model)
_askers: list[Callable[[Actor], list[Waiting]]] = []


def register_waiting(ask: Callable[[Actor], list[Waiting]]) -> None:
    """Called by an app's ready(). `ask` answers with a bounded number of things, in the reader's language, by a few
    queries however many there are: it is asked whenever somebody opens Home."""
    _askers.append(ask)


def first(rows: QuerySet[Row], most: int, told: Callable[[Row], Waiting]) -> list[Waiting]:
    """What the first `most` rows say, the last marked where there are more: nothing is cut off silently."""
    found = list(rows[: most + 1])
    things = [told(row) for row in found[:most]]
    if len(found) > most:
        things[-1] = replace(things[-1], and_more=True)
    return things


def waiting_for(actor: Actor) -> list[Waiting]:
    """Everything that waits for this person, what waits longest first."""
    found = [thing for ask in _askers for thing in ask(actor)]
    return sorted(found, key=lambda thing: (thing.since is None, thing.since.timestamp() if thing.since else 0.0))
