"""From nodes and pods to what is kept of each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from apps.clusters.domain import nodes as domain
from apps.clusters.domain.accelerators import Catalogue, is_extended
from apps.clusters.domain.capacity import Capacity, capacity_of, count
from apps.clusters.domain.nodes import CPU, MEMORY, TEXT_LIMIT, RawPod, SeenNode
from apps.clusters.domain.quantity import thousandths, whole
from apps.clusters.services.catalogue import catalogue
from apps.clusters.services.registry import workloads
from apps.clusters.services.seen import Unlike, nodes_unlike
from apps.clusters.watch.projections import ENDED, Container, Node, Pod
from apps.clusters.watch.queues import Around


@dataclass
class Inventory:
    """The nodes of one cluster with what is placed on them. What has not changed is not read again."""

    cluster_id: int
    around: Around | None = None
    _catalogue: Catalogue | None = None
    _seen: dict[str, tuple[object, SeenNode]] = field(default_factory=dict)
    _pods: dict[str, tuple[str, RawPod]] = field(default_factory=dict)

    def unlike(self, nodes: list[Node], pods: list[Pod]) -> Unlike:
        """Read them, and find what is kept otherwise. Asks the database, in no transaction: the first look at
        thousands of nodes takes seconds, for which nothing may be locked."""
        known = catalogue()
        if known != self._catalogue:
            self._catalogue = known
            self._seen.clear()
        return nodes_unlike(self.cluster_id, self.read(nodes, pods, known))

    @property
    def capacity(self) -> Capacity:
        """Of what was read last."""
        return capacity_of(seen.space for _mark, seen in self._seen.values())

    def read(self, nodes: Iterable[Node], pods: Iterable[Pod], known: Catalogue) -> list[SeenNode]:
        """Each node as it is now; a pod counts from being bound until it has ended."""
        on_node: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.spec.nodeName and pod.status.phase not in ENDED:
                on_node[pod.spec.nodeName].append(pod)
        before, before_pods = self._seen, self._pods
        self._seen, self._pods = {}, {}
        nodes, found = list(nodes), []
        around = self.around
        fabrics = around.fabrics(nodes) if around is not None else {}
        for node in nodes:
            name, here = node.metadata.name, on_node[node.metadata.name]
            mark = node.metadata.resourceVersion, [(pod.metadata.uid, pod.metadata.resourceVersion) for pod in here]
            raw_pods = [self._pod(pod, before_pods) for pod in here]
            held = before.get(name)
            seen = held[1] if held and held[0] == mark else domain.see(raw(node), raw_pods, known)
            self._seen[name] = mark, seen
            found.append(seen.within(fabrics.get(name, ""), around.numa(name) if around is not None else None))
        return found

    def _pod(self, pod: Pod, before: dict[str, tuple[str, RawPod]]) -> RawPod:
        uid, version = pod.metadata.uid, pod.metadata.resourceVersion
        held = before.get(uid)
        seen = held[1] if held and held[0] == version else raw_pod(pod)
        self._pods[uid] = version, seen
        return seen


def raw(node: Node) -> domain.Raw:
    """A node in the domain's words; of texts no more is kept than people read."""
    info = node.status.nodeInfo
    return domain.Raw(
        name=node.metadata.name,
        labels=node.metadata.labels or {},
        capacity={name: str(amount) for name, amount in (node.status.capacity or {}).items()},
        allocatable={name: str(amount) for name, amount in (node.status.allocatable or {}).items()},
        taints=tuple(domain.Taint(t.key, (t.value or "")[:TEXT_LIMIT], t.effect) for t in node.spec.taints or []),
        conditions=tuple(
            domain.Condition(
                c.type[:TEXT_LIMIT], c.status, (c.reason or "")[:TEXT_LIMIT], (c.message or "")[:TEXT_LIMIT],
                c.lastTransitionTime or "",
            )
            for c in node.status.conditions or []
        ),
        cordoned=node.spec.unschedulable,
        versions={
            name: text[:TEXT_LIMIT]
            for name, text in (
                ("kubelet", info.kubeletVersion), ("runtime", info.containerRuntimeVersion),
                ("kernel", info.kernelVersion), ("os", info.osImage), ("architecture", info.architecture),
            )
            if text
        },
        address=next((a.address for a in node.status.addresses or [] if a.type == "InternalIP"), ""),
    )  # fmt: skip


def raw_pod(pod: Pod) -> RawPod:
    """What a pod asks for: the sum of its containers, or what one of those that come before them needs."""
    running = [asks(container) for container in pod.spec.containers or []]
    beside: list[dict[str, int]] = []
    first: list[dict[str, int]] = []
    for container in pod.spec.initContainers or []:
        if container.restartPolicy == "Always":
            beside.append(asks(container))
            first.append(_sum(beside))
        else:
            first.append(_sum([*beside, asks(container)]))
    total = _sum([*running, *beside])
    for one in first:
        total = {name: max(total.get(name, 0), one.get(name, 0)) for name in {*total, *one}}
    found = ((kind.label, pod.metadata.label(kind.label)) for kind in workloads())
    label, row = next(((label, row) for label, row in found if row), ("", ""))
    return RawPod(pod.metadata.namespace, pod.metadata.name, total, label, row)


def asks(container: Container) -> dict[str, int]:
    """A container's requests; a limit without a request is one."""
    resources = container.resources
    amounts = {**(resources.limits or {}), **(resources.requests or {})} if resources else {}
    readers: dict[str, Callable[[str], int]] = {CPU: thousandths, MEMORY: whole}
    return {
        name: readers.get(name, count)(str(amount))
        for name, amount in amounts.items()
        if name in readers or is_extended(name)
    }


def _sum(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)
