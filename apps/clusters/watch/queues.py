"""What stands around a cluster's nodes: queues, events of nodes, the HyperNodes that say which nodes are near, the
Numatopologies that say which cores are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.stream import Listed, StreamReader
from apps.clusters.domain import topology
from apps.clusters.domain.accelerators import is_extended
from apps.clusters.domain.capacity import count
from apps.clusters.domain.nodes import CPU, MEMORY, TEXT_LIMIT
from apps.clusters.domain.quantity import thousandths, whole
from apps.clusters.domain.queues import QueueSeen
from apps.clusters.services.queues import NodeEventSeen, note_events, note_queues
from apps.clusters.watch.projections import ClusterEvent, Node
from apps.clusters.watch.reflect import Reflector

HYPERNODE = objects.Kind("HyperNode", "topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False)
NUMATOPOLOGY = objects.Kind("Numatopology", "nodeinfo.volcano.sh/v1alpha1", "numatopologies", namespaced=False)
Amounts = dict[str, str | int | float]
MOST_EVENTS = 1000
"""So many events of nodes wait to be written; what comes faster is dropped, oldest first."""


class _Guarantee(msgspec.Struct):
    resource: Amounts | None = None


class _QueueSpec(msgspec.Struct):
    parent: str | None = None
    weight: int | None = None
    reclaimable: bool | None = None
    deserved: Amounts | None = None
    guarantee: _Guarantee | None = None
    capability: Amounts | None = None


class _QueueStatus(msgspec.Struct):
    state: str | None = None
    allocated: Amounts | None = None


class Queue(Listed):
    spec: _QueueSpec = msgspec.field(default_factory=_QueueSpec)
    status: _QueueStatus = msgspec.field(default_factory=_QueueStatus)


class _Exact(msgspec.Struct):
    name: str = ""


class _Regex(msgspec.Struct):
    pattern: str = ""


class _Labels(msgspec.Struct):
    matchLabels: dict[str, str] | None = None  # noqa: N815 (the API's name)


class _Selector(msgspec.Struct):
    exactMatch: _Exact | None = None  # noqa: N815
    regexMatch: _Regex | None = None  # noqa: N815
    labelMatch: _Labels | None = None  # noqa: N815


class _Member(msgspec.Struct):
    type: str = "Node"
    selector: _Selector = msgspec.field(default_factory=_Selector)


class _HyperSpec(msgspec.Struct):
    tier: int = 1
    members: list[_Member] | None = None


class HyperNode(Listed):
    spec: _HyperSpec = msgspec.field(default_factory=_HyperSpec)


class _Core(msgspec.Struct):
    numa: int = 0
    socket: int = 0


class _NumaSpec(msgspec.Struct):
    policies: dict[str, str] | None = None
    resReserved: dict[str, str] | None = None  # noqa: N815
    cpuDetail: dict[str, _Core] | None = None  # noqa: N815


class Numatopology(Listed):
    """Written by Volcano's resource exporter on each node, under the node's name."""

    spec: _NumaSpec = msgspec.field(default_factory=_NumaSpec)


QUEUES = msgspec.json.Decoder(Queue)
HYPERNODES = msgspec.json.Decoder(HyperNode)
NUMATOPOLOGIES = msgspec.json.Decoder(Numatopology)


@dataclass
class Around:
    """Keeps them; `changed` is called whenever there is something to write."""

    reader: StreamReader
    broken: Callable[[], None]
    changed: Callable[[], None]
    _events: list[NodeEventSeen] = field(default_factory=list)
    _marks: tuple[object, object] = (None, None)
    _fabrics: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def told(_old: Listed | None, _new: Listed | None) -> None:
            self.changed()

        everywhere = objects.everywhere
        self.queues: Reflector[Queue] = Reflector(self.reader, everywhere(objects.QUEUE), QUEUES, told, self.broken)
        self.hypernodes: Reflector[HyperNode] = Reflector(
            self.reader, everywhere(HYPERNODE), HYPERNODES, told, self.broken
        )
        self.numatopologies: Reflector[Numatopology] = Reflector(
            self.reader, everywhere(NUMATOPOLOGY), NUMATOPOLOGIES, told, self.broken
        )

    @property
    def reflectors(self) -> list[Reflector[Any]]:
        return [self.queues, self.hypernodes, self.numatopologies]

    def event(self, event: ClusterEvent) -> None:
        """An event came; those of nodes are kept."""
        if event.involvedObject.kind != "Node":
            return
        at = event.lastTimestamp or event.eventTime or datetime.now(UTC)
        seen = NodeEventSeen(
            event.involvedObject.name, event.reason[:80], event.message[:TEXT_LIMIT], event.type == "Warning", at
        )
        self._events = [*self._events[1 - MOST_EVENTS :], seen]
        self.changed()

    def fabrics(self, nodes: list[Node]) -> dict[str, str]:
        """The HyperNode of each node; found anew when a HyperNode or a node changed."""
        hyper = list(self.hypernodes.store.values())
        marks = (
            [(one.metadata.name, one.metadata.resourceVersion) for one in hyper],
            [(one.metadata.name, one.metadata.labels) for one in nodes] if hyper else None,
        )
        if marks != self._marks:
            self._marks = marks
            named = ((one.metadata.name, one.metadata.labels or {}) for one in nodes)
            self._fabrics = topology.fabrics(map(_hypernode, hyper), named)
        return self._fabrics

    def numa(self, node: str) -> topology.Numa | None:
        """How the cores of a node lie, where that is told."""
        found = self.numatopologies.store.get(("", node))
        return numa_of(found) if found else None

    def note(self, cluster_id: int) -> None:
        """Write queues and events down. Talks to the database."""
        if self.queues.synced.is_set():
            note_queues(cluster_id, [seen(queue) for queue in list(self.queues.store.values())])
        events, self._events = self._events, []
        if events:
            note_events(cluster_id, events)


def _hypernode(item: HyperNode) -> topology.HyperNode:
    members = []
    for member in item.spec.members or []:
        wanted = member.selector
        labels = tuple(sorted((wanted.labelMatch.matchLabels or {}).items())) if wanted.labelMatch else ()
        exact = wanted.exactMatch.name if wanted.exactMatch else ""
        pattern = wanted.regexMatch.pattern if wanted.regexMatch else ""
        if member.type == "Node":
            members.append(topology.Member(exact, pattern, labels))
    return topology.HyperNode(item.metadata.name, item.spec.tier, tuple(members))


def numa_of(item: Numatopology) -> topology.Numa:
    """A Numatopology in the domain's words; of cores without a number nothing is said."""
    spec, policies = item.spec, item.spec.policies or {}
    cores = [(int(cpu), one.numa, one.socket) for cpu, one in (spec.cpuDetail or {}).items() if cpu.isdigit()]
    return topology.Numa(
        zones=topology.zones(cores),
        cpu_policy=policies.get("CPUManagerPolicy", "")[:TEXT_LIMIT],
        placing_policy=policies.get("TopologyManagerPolicy", "")[:TEXT_LIMIT],
        reserved_cpu=(spec.resReserved or {}).get(CPU, "")[:TEXT_LIMIT],
    )


def seen(queue: Queue) -> QueueSeen:
    """A Queue in the domain's words."""
    spec = queue.spec
    return QueueSeen(
        name=queue.metadata.name,
        parent=spec.parent or "",
        state=queue.status.state or "",
        weight=spec.weight if spec.weight is not None else 1,
        reclaimable=spec.reclaimable is not False,
        deserved=_amounts(spec.deserved),
        guarantee=_amounts(spec.guarantee.resource if spec.guarantee else None),
        capability=_amounts(spec.capability),
        allocated=_amounts(queue.status.allocated),
    )


def _amounts(raw: Amounts | None) -> dict[str, int]:
    readers: dict[str, Callable[[str], int]] = {CPU: thousandths, MEMORY: whole}
    return {
        name: readers.get(name, count)(str(amount))
        for name, amount in (raw or {}).items()
        if name in readers or is_extended(name)
    }
