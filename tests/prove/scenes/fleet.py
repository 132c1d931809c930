"""A fleet as it is on a busy day: fifty nodes by leaf pair with some ill, a cluster of 5,000, one that is silent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.clusters.domain.queues import QueueSeen
from apps.clusters.domain.topology import Numa, zones
from apps.clusters.models import Cluster
from apps.clusters.services.queues import NodeEventSeen, note_events, note_queues
from apps.clusters.services.seen import note_nodes
from tests.clusters.fleet_made import ill, many, node, pod
from tests.factories import World

PAGES = {
    "fleet": ("platform-operator", "/fleet/?cluster=fleet-a"),
    "fleet-tenant": ("data-scientist", "/fleet/?cluster=fleet-a&tenant=nlp"),
    "fleet-large": ("data-scientist", "/fleet/"),
    "fleet-nobody": ("nobody", "/fleet/"),
    "fleet-nodes": ("data-scientist", "/fleet/nodes?cluster=fleet-a"),
    "fleet-nodes-none": ("data-scientist", "/fleet/nodes?q=nothing-like-this"),
    "fleet-node": ("platform-operator", "/fleet/nodes/fleet-a/gpu-0006"),
    "fleet-node-ill": ("data-scientist", "/fleet/nodes/fleet-a/gpu-0023"),
    "fleet-node-silent": ("data-scientist", "/fleet/nodes/fleet-c/gpu-0001"),
    "fleet-queues": ("data-scientist", "/fleet/queues/fleet-a"),
    "fleet-queues-none": ("data-scientist", "/fleet/queues/fleet-d"),
    "fleet-accelerators": ("data-scientist", "/fleet/accelerators"),
    "fleet-accelerator": ("platform-operator", "/fleet/accelerators/ascend-910b"),
}
EXPECTED_ERRORS = {"fleet-nobody": 403}
GPU = "nvidia.com/gpu"
NUMA = Numa(zones((n, n // 32 % 2, n // 32 % 2) for n in range(128)), "static", "single-numa-node", "4")


def _queue(name: str, parent: str, deserved: int, used: int) -> QueueSeen:
    amounts = {GPU: deserved, "cpu": deserved * 16000}
    return QueueSeen(name, parent, "Open", deserved=amounts, allocated={GPU: used, "cpu": used * 8000})


QUEUES = [
    _queue("research", "root", 256, 232), _queue("tenant-nlp", "research", 64, 40),
    _queue("tenant-vision", "research", 96, 112), _queue("speech", "research", 48, 44),
    _queue("product", "root", 96, 52), _queue("search", "product", 64, 36), _queue("default", "root", 0, 0),
]  # fmt: skip
ILL = {11: "cordoned", 22: "silent", 23: "condition", 30: "devices", 40: "tainted"}


def _nodes() -> list[Any]:
    made = []
    for n in range(50):
        used = (8, 8, 4, 8, 6, 4, 8, 8, 0, 0, 8, 4)[n % 12] if n not in ILL else 4
        owner = "tenant-vision" if n % 5 == 2 else "tenant-nlp"
        pods = [pod(owner, f"j-{n:04d}-worker-0", used)] if used else []
        leaf, troubles = f"L{n // 4 + 1:02d}", ill(ILL[n]) if n in ILL else {}
        made.append(node(f"gpu-{n:04d}", pods, **troubles).within(leaf, NUMA))
    return made


def seed(world: World, me: User) -> dict[str, Any]:
    now = timezone.now()
    clusters = [
        Cluster.objects.create(
            slug=f"fleet-{letter}", name=f"Fleet {letter.upper()}", server="http://127.0.0.1:1", version="v1.34.2",
            seen_at=now,
        )
        for letter in "abcd"
    ]  # fmt: skip
    for cluster in clusters[:1]:
        for place in (world.place, world.other_place):
            type(place).objects.create(
                tenant=place.tenant, cluster=cluster, namespace=place.namespace, queue=place.queue, state=place.state
            )
    note_nodes(clusters[0].pk, _nodes())
    many(clusters[1], 5000, lambda n: (8, 8, 8, 6, 4, 0, 8, 2)[(n * 7 + n // 31) % 8])
    many(clusters[2], 24, lambda n: n % 9)
    note_queues(clusters[0].pk, QUEUES)
    note_events(clusters[0].pk, [
        NodeEventSeen("gpu-0023", "NodeNotReady", "Node gpu-0023 status is now: NodeNotReady", True, now),
        NodeEventSeen("gpu-0023", "Rebooted", "Node gpu-0023 has been rebooted", True, now - timedelta(hours=7)),
    ])  # fmt: skip
    silent = now - timedelta(hours=3)
    Cluster.objects.filter(pk=clusters[2].pk).update(
        unreachable_since=silent, unreachable_reason="timeout", seen_at=silent
    )
    Cluster.objects.filter(pk=clusters[3].pk).update(seen_at=None)
    return {}
