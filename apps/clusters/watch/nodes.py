"""From nodes and pods to what each node has left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from apps.clusters.domain.capacity import NodeSpace, accelerator, count, product_of
from apps.clusters.watch.projections import Node, Pod


def spaces(nodes: Iterable[Node], pods: Iterable[Pod]) -> list[NodeSpace]:
    """The space of each node; a pod counts from being bound until it has ended."""
    on_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.nodeName:
            on_node[pod.spec.nodeName].append(pod)
    return [_space(node, on_node[node.metadata.name]) for node in nodes]


def _space(node: Node, pods: list[Pod]) -> NodeSpace:
    allocatable = {name: str(amount) for name, amount in (node.status.allocatable or {}).items()}
    resource, total = accelerator(allocatable)
    used = sum(count(amount) for pod in pods for amount in pod.holds(resource)) if resource else 0
    return NodeSpace(
        name=node.metadata.name,
        product=product_of(node.metadata.labels or {}, resource),
        resource=resource,
        total=total,
        used=used,
        ready=node.is_ready,
        schedulable=not node.spec.unschedulable,
    )
