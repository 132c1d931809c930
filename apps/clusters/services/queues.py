"""Queues and events of nodes: written by the watch process, read by pages."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.accounts.types import Actor, Permission
from apps.clusters.domain.queues import Line, QueueSeen, resources, tree
from apps.clusters.models import Cluster, ClusterNode, ClusterQueue, NodeEvent
from apps.clusters.services.catalogue import catalogue
from apps.clusters.services.nodehistory import SEEN
from apps.streams.services import hint

KEPT = timedelta(days=7)
SHOWN = 20


@dataclass(frozen=True)
class NodeEventSeen:
    node: str
    reason: str
    message: str
    is_warning: bool
    at: datetime


@transaction.atomic
def note_queues(cluster_id: int, seen: Iterable[QueueSeen]) -> bool:
    """Make what is kept of a cluster's queues equal to what is there; True (and a hint) if anything changed."""
    rows = ClusterQueue.objects.filter(cluster_id=cluster_id)
    known = dict(rows.values_list("name", "facts"))
    fresh = {one.name: {key: value for key, value in asdict(one).items() if key != "name"} for one in seen}
    changed = [
        ClusterQueue(cluster_id=cluster_id, name=name[:253], facts=facts)
        for name, facts in fresh.items()
        if known.get(name) != facts
    ]
    gone = known.keys() - fresh.keys()
    ClusterQueue.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["cluster", "name"], update_fields=["facts"]
    )
    if gone:
        rows.filter(name__in=gone).delete()
    if changed or gone:
        hint(f"cluster.{cluster_id}")
    return bool(changed or gone)


@transaction.atomic
def note_events(cluster_id: int, events: Iterable[NodeEventSeen]) -> None:
    """Keep events of nodes for a week; one that comes again is counted."""
    for event in events:
        key = zlib.crc32(f"{event.reason}\0{event.message}".encode())
        fields = {"is_warning": event.is_warning, "reason": event.reason, "message": event.message, "at": event.at}
        rows = NodeEvent.objects.filter(cluster_id=cluster_id, node=event.node, key=key)
        if not rows.update(**fields, count=F("count") + 1):
            NodeEvent.objects.create(cluster_id=cluster_id, node=event.node, key=key, **fields)
    NodeEvent.objects.filter(cluster_id=cluster_id, at__lt=timezone.now() - KEPT).delete()
    hint(f"cluster.{cluster_id}")


def events_of(node: ClusterNode) -> list[NodeEvent]:
    """What the cluster said last of a node."""
    said = NodeEvent.objects.filter(cluster_id=node.cluster_id, node=node.name).exclude(reason__startswith=SEEN)
    return list(said.order_by("-at", "-pk")[:SHOWN])


@dataclass(frozen=True)
class Queues:
    """A cluster's tree of queues, counted in one of the resources that it could be counted in."""

    cluster: Cluster
    resource: str
    resources: list[str]
    lines: list[Line]

    @property
    def scale(self) -> int:
        """The longest bar."""
        return max((max(line.used, line.deserved or 0) for line in self.lines), default=0) or 1


def queues(actor: Actor, cluster: Cluster, resource: str = "") -> Queues:
    """The queues of a cluster this person may see. Of resources nobody chose, the accelerators that most use."""
    actor.require(Permission.CLUSTER_VIEW, target=f"cluster:{cluster.pk}")
    seen = [QueueSeen(name, **facts) for name, facts in cluster_rows(cluster)]
    found = resources(seen)
    known = catalogue()
    counted = [name for name in found if any(entry.counts.is_accelerator for entry in known.known(name))]
    used = {name: sum(queue.allocated.get(name, 0) + queue.deserved.get(name, 0) for queue in seen) for name in counted}
    best = max(sorted(used), key=lambda name: used[name], default=next(iter(found), ""))
    chosen = resource if resource in found else best
    return Queues(cluster, chosen, found, tree(seen, chosen))


def cluster_rows(cluster: Cluster) -> list[tuple[str, dict[str, Any]]]:
    return list(ClusterQueue.objects.filter(cluster=cluster).order_by("name").values_list("name", "facts"))
