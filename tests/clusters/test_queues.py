"""Queues, HyperNodes and events of nodes: as read, as kept, as shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.domain import Role
from apps.clusters.domain.queues import QueueSeen, tree
from apps.clusters.domain.topology import HyperNode, Member, Zone, cpu_list, fabrics
from apps.clusters.models import ClusterNode, ClusterQueue, NodeEvent
from apps.clusters.services import queues as services
from apps.clusters.services.catalogue import catalogue
from apps.clusters.services.queues import NodeEventSeen, note_events, note_queues
from apps.clusters.services.seen import note_nodes
from apps.clusters.watch.nodes import Inventory
from apps.clusters.watch.projections import NODES
from apps.clusters.watch.queues import HYPERNODES, NUMATOPOLOGIES, QUEUES, _hypernode, numa_of, seen
from tests.clusters.fleet_made import node
from tests.factories import World
from tests.pages import browser

GPU = "nvidia.com/gpu"


def queue(name: str, parent: str = "root", **amounts: int) -> QueueSeen:
    return QueueSeen(name, parent, **{key: {GPU: amount} for key, amount in amounts.items()})


def test_what_is_used_beyond_what_is_deserved_is_borrowed_and_the_rest_is_lent() -> None:
    lines = tree(
        [queue("a", deserved=8, allocated=12), queue("b", deserved=8, allocated=2), queue("c", allocated=3)], GPU
    )
    assert [(line.queue.name, line.borrowed, line.lent) for line in lines] == [("a", 4, 0), ("b", 0, 6), ("c", 0, 0)]


def test_children_stand_below_their_parents_and_a_ring_is_told_once() -> None:
    queues = [
        queue("root", ""), queue("nlp", "research"), queue("research"), queue("asr", "research"), queue("lost", "gone"),
        queue("x", "y"), queue("y", "x"),
    ]  # fmt: skip
    lines = [(line.queue.name, line.depth) for line in tree(queues, GPU)]
    assert lines == [("lost", 0), ("research", 0), ("asr", 1), ("nlp", 1), ("x", 0), ("y", 1)]


def test_a_queue_is_read_as_volcano_writes_it() -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "q", "resourceVersion": "1"},
        "spec": {
            "parent": "root", "reclaimable": False, "deserved": {GPU: "8", "cpu": "1500m", "pods": "9"},
            "guarantee": {"resource": {GPU: "2"}}, "capability": {"memory": "1Gi"},
        },
        "status": {"state": "Open", "allocated": {GPU: "12", "cpu": "2"}},
    }  # fmt: skip
    read = seen(QUEUES.decode(json.dumps(document)))
    assert (read.deserved, read.guarantee) == ({GPU: 8, "cpu": 1500}, {GPU: 2})
    assert (read.capability, read.allocated) == ({"memory": 1 << 30}, {GPU: 12, "cpu": 2000})
    assert (read.reclaimable, read.state) == (False, "Open")
    bare = seen(QUEUES.decode(b'{"metadata": {"name": "q"}, "spec": {}}'))
    assert (bare.reclaimable, bare.weight, bare.deserved) == (True, 1, {})


def test_a_node_is_in_the_nearest_hypernode_that_takes_it() -> None:
    hyper = [
        HyperNode("spine", 2, (Member(pattern="^gpu-"),)), HyperNode("leaf-a", 1, (Member(exact="gpu-1"),)),
        HyperNode("leaf-b", 1, (Member(labels=(("rack", "7"),)),)), HyperNode("broken", 1, (Member(pattern="("),)),
    ]  # fmt: skip
    nodes = [("gpu-1", {}), ("gpu-2", {"rack": "7"}), ("gpu-3", {}), ("cpu-1", {})]
    assert fabrics(hyper, nodes) == {"gpu-1": "leaf-a", "gpu-2": "leaf-b", "gpu-3": "spine"}


def test_a_hypernode_is_read_as_volcano_writes_it() -> None:
    members = [
        {"type": "Node", "selector": {"exactMatch": {"name": "a"}}}, {"type": "HyperNode", "selector": {}},
        {"type": "Node", "selector": {"regexMatch": {"pattern": "b.*"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"k": "v"}}}},
    ]  # fmt: skip
    document = {"metadata": {"name": "leaf"}, "spec": {"tier": 1, "members": members}}
    read = _hypernode(HYPERNODES.decode(json.dumps(document)))
    assert read.members == (Member("a"), Member(pattern="b.*"), Member(labels=(("k", "v"),)))


NUMATOPOLOGY: dict[str, Any] = {
    "metadata": {"name": "gpu-1", "resourceVersion": "7"},
    "spec": {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        "resReserved": {"cpu": "2"},
        "numares": {"cpu": {"allocatable": "1-7", "capacity": 8}},
        "cpuDetail": {str(n): {"numa": n // 2 % 2, "socket": n // 2 % 2, "core": n % 4} for n in range(8)},
    },
}


def test_cores_are_listed_as_linux_does() -> None:
    assert cpu_list([7, 1, 0, 2, 9, 10]) == "0-2,7,9-10"
    assert cpu_list([]) == ""


def test_a_numatopology_is_read_as_volcanos_exporter_writes_it() -> None:
    read = numa_of(NUMATOPOLOGIES.decode(json.dumps(NUMATOPOLOGY)))
    assert read.zones == (Zone(0, 0, "0-1,4-5", 4), Zone(1, 1, "2-3,6-7", 4))
    assert (read.cpu_policy, read.placing_policy, read.reserved_cpu) == ("static", "single-numa-node", "2")
    bare = numa_of(NUMATOPOLOGIES.decode(b'{"metadata": {"name": "n"}, "spec": {"cpuDetail": {"x": {}}}}'))
    assert bare.zones == ()


@pytest.mark.django_db
def test_a_nodes_page_says_how_its_cores_lie(world: World) -> None:
    cluster = world.place.cluster
    raw = {"metadata": {"name": "gpu-1", "resourceVersion": "1"}, "status": {"allocatable": {"cpu": "8"}}}
    (seen_node,) = Inventory(cluster.pk).read([NODES.decode(json.dumps(raw))], [], catalogue())
    numa = numa_of(NUMATOPOLOGIES.decode(json.dumps(NUMATOPOLOGY)))
    note_nodes(cluster.pk, [seen_node.within("leaf", numa)])
    page = browser(world.scientist).get("/fleet/nodes/train-a/gpu-1").content.decode()
    assert "0-1,4-5" in page
    assert "What a pod gets lies in one NUMA node, or it is refused" in page
    note_nodes(cluster.pk, [seen_node.within("leaf")])
    assert "NUMA node" not in browser(world.scientist).get("/fleet/nodes/train-a/gpu-1").content.decode()


@pytest.mark.django_db
def test_queues_are_kept_as_they_are_and_shown_as_a_tree(world: World) -> None:
    cluster = world.place.cluster
    first = [queue("research", deserved=24), queue("nlp", "research", deserved=8, allocated=12)]
    assert note_queues(cluster.pk, first)
    assert not note_queues(cluster.pk, first)
    page = browser(world.scientist).get("/fleet/queues/train-a").content.decode()
    assert "borrows 4" in page
    assert "lends 24" in page
    rows = browser(world.scientist).get("/api/v1/clusters/train-a/queues").json()
    assert [(row["name"], row["depth"], row["borrowed"]) for row in rows] == [("research", 0, 0), ("nlp", 1, 4)]
    assert note_queues(cluster.pk, first[:1])
    assert ClusterQueue.objects.get().name == "research"


@pytest.mark.django_db
def test_of_several_resources_accelerators_are_counted_unless_another_is_chosen(world: World) -> None:
    both = QueueSeen("q", deserved={GPU: 8, "cpu": 64000}, allocated={GPU: 4, "cpu": 1000})
    note_queues(world.place.cluster_id, [both])
    actor = world.actor(Role.SCIENTIST)
    assert services.queues(actor, world.place.cluster).resource == GPU
    assert services.queues(actor, world.place.cluster, "cpu").lines[0].used == 1000
    assert services.queues(actor, world.place.cluster, "no such").resource == GPU


@pytest.mark.django_db
def test_an_event_that_comes_again_is_counted_and_an_old_one_forgotten(world: World) -> None:
    """crater a8a64998: the cluster forgets its events within the hour; what was kept of them is shown then too."""
    cluster = world.place.cluster
    note_nodes(cluster.pk, [node("gpu-1")])
    now = datetime.now(UTC)
    event = NodeEventSeen("gpu-1", "NodeNotReady", "Node gpu-1 status is now: NodeNotReady", True, now)
    old = NodeEventSeen("gpu-1", "Rebooted", "Node gpu-1 has been rebooted", True, timezone.now() - timedelta(days=8))
    note_events(cluster.pk, [event, event, old])
    (kept,) = services.events_of(ClusterNode.objects.get())
    assert (kept.reason, kept.count) == ("NodeNotReady", 2)
    assert NodeEvent.objects.count() == 1
    assert "It stopped being ready" in browser(world.scientist).get("/fleet/nodes/train-a/gpu-1").content.decode()
