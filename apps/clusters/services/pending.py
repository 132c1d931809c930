"""What stands in the way of a gang, by what was last seen of its cluster's queues and nodes."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import BigIntegerField, Count, Max, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from apps.clusters.domain.capacity import NodeSpace
from apps.clusters.domain.nodes import CPU, MEMORY
from apps.clusters.domain.pending import Finding, Fleet, Gang, examine
from apps.clusters.domain.queues import DEEPEST, ROOT, QueueSeen
from apps.clusters.models import Cluster, ClusterNode, ClusterQueue

_ALIKE = ("total", "used", "ready", "schedulable", "tainted", "free_cpu", "free_memory", "free_pods")


def obstacles(cluster: Cluster, queue: str, gang: Gang, promised: Mapping[str, int]) -> Finding:
    """Count a gang against its queue and the nodes, in a few queries whatever the size of the cluster. `promised` is
    kept in the queue for other gangs that were let in and have no nodes yet."""
    return examine(gang, queue, _queues(cluster, queue, gang.accelerator), _fleet(cluster, gang.accelerator), promised)


def _queues(cluster: Cluster, name: str, accelerator: str) -> list[QueueSeen]:
    """The queue, those above it, and those to which accelerators are guaranteed."""
    rows = ClusterQueue.objects.filter(cluster=cluster)
    wanted = Q(name=name) | Q(facts__guarantee__has_key=accelerator)
    found = {row: QueueSeen(row, **facts) for row, facts in rows.filter(wanted).values_list("name", "facts")}
    for _level in range(DEEPEST):
        name = found[name].parent if name in found else ""
        if name in ("", ROOT):
            break
        found |= {row: QueueSeen(row, **facts) for row, facts in rows.filter(name=name).values_list("name", "facts")}
    return list(found.values())


def _fleet(cluster: Cluster, accelerator: str) -> Fleet:
    """Nodes with the accelerator, gathered where they are alike."""
    there = ClusterNode.objects.for_system().filter(cluster=cluster)
    offering = there.filter(resource=accelerator)
    nodes = [
        (NodeSpace("", "", accelerator, **{key: row[key] for key in _ALIKE}), row["alike"])
        for row in offering.values(*_ALIKE).annotate(alike=Count("pk")).order_by()
    ]
    cpu, memory = (
        Max(Cast(KT(f"facts__resources__{name}__1"), BigIntegerField())) for name in (CPU, MEMORY)
    )  # what a node offers, see domain.nodes
    most = offering.aggregate(accelerator=Max("total"), cpu=cpu, memory=memory)
    biggest = {accelerator: most["accelerator"], CPU: most["cpu"], MEMORY: most["memory"]}
    return Fleet(
        nodes, {name: value for name, value in biggest.items() if value is not None}, bool(nodes) or there.exists()
    )
