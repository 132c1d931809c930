"""How many nodes and accelerators clusters have, counted by the database: one query for any number of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Greatest

from apps.clusters.models import ClusterNode


@dataclass(frozen=True)
class Room:
    """Nodes of any kind, and accelerators in all and free on nodes that take pods."""

    nodes: int = 0
    total: int = 0
    free: int = 0


def rooms_of(cluster_ids: Iterable[int]) -> dict[int, Room]:
    """Those of some clusters, as last seen; clusters of which no node was seen are left out."""
    usable = Q(ready=True, schedulable=True, tainted=False)
    rows = ClusterNode.objects.for_system().filter(cluster_id__in=list(cluster_ids)).order_by()
    counted = rows.values("cluster_id").annotate(
        nodes=Count("pk"), all=Sum("total"), free=Sum(Greatest(F("total") - F("used"), 0), filter=usable)
    )
    return {row["cluster_id"]: Room(row["nodes"], row["all"], row["free"] or 0) for row in counted}
