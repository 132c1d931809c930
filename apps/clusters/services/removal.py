"""Removing a cluster: what it would leave behind first, then its row, its credential and its watcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models.functions import Now

from apps.accounts.types import Actor
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.clusters.models import Cluster
from apps.clusters.services.actions import REMOVED
from apps.clusters.services.registration import ALL, TEND, require_operator
from apps.streams.services import hint


@dataclass(frozen=True)
class Occupant:
    """Something that lives in a cluster and would be orphaned: a sentence, and the page where it is ended."""

    text: str
    url: str = ""


class Occupied(Exception):
    """Something lives in the cluster; nothing was changed."""

    def __init__(self, occupants: list[Occupant]) -> None:
        super().__init__(", ".join(one.text for one in occupants))
        self.occupants = occupants


class WrongName(ValueError):
    """What was typed is not the cluster's short name; nothing was changed."""


_finders: dict[str, Callable[[int], list[Occupant]]] = {}


def register_occupants(kind: str, find: Callable[[int], list[Occupant]]) -> None:
    """Called in an app's ready(): `find(cluster_id)` tells what of its kind lives in a cluster, in words."""
    if kind in _finders:
        raise ValueError(f"Occupants of kind {kind} are registered twice.")
    _finders[kind] = find


def occupants_of(cluster_id: int) -> list[Occupant]:
    """Everything that removing a cluster would orphan."""
    return [occupant for find in _finders.values() for occupant in find(cluster_id)]


@audit.use_case(REMOVED)
def remove(actor: Actor, *, cluster: Cluster, typed: str) -> None:
    """Stop watching a cluster and forget its credential; in the cluster itself nothing is touched. `typed` is its short
    name. Removing it twice is removing it once. Raises WrongName, Occupied."""
    require_operator(actor)
    if typed.strip() != cluster.slug:
        raise WrongName
    # Whoever gives a tenant a place here holds this row by its foreign key: they are waited for, and then counted.
    here = Cluster.objects.for_system().standing().filter(pk=cluster.pk)
    if here.select_for_update().first() is None:
        return
    if occupants := occupants_of(cluster.pk):
        raise Occupied(occupants)
    here.update(state=Cluster.State.LEAVING, due_at=Now())
    audit.record(REMOVED, actor, f"cluster:{cluster.pk}", name=cluster.name)
    hint(cluster.topic)
    hint(ALL)
    wake(TEND, cluster.pk)
