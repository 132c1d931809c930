"""Which nodes may take a pod, and which of them is best."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from apps.localcluster.volcano.objects import namespace
from apps.localcluster.volcano.quantity import Resources
from apps.localcluster.volcano.scheduler.model import Node, Snapshot, Task
from apps.localcluster.volcano.scheduler.settings import Settings

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


# --- may it go there at all


def ready(node: Node) -> bool:
    conditions = (node.item.get("status") or {}).get("conditions") or []
    return all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready")


def barred(task: Task, node: Node) -> str:
    """The reason that keeps a pod off a node whatever is free there; the empty text if none does."""
    spec = task.pod["spec"]
    tolerations = spec.get("tolerations") or []
    cordon = {"key": _UNSCHEDULABLE, "effect": "NoSchedule"}
    node_spec = node.item.get("spec") or {}
    if node_spec.get("unschedulable") and not _tolerated(cordon, tolerations):
        return "node(s) were unschedulable"
    if not _selected(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in node_spec.get("taints") or []:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations):
            return "node(s) had untolerated taint(s)"
    return ""


def _tolerated(taint: Object, tolerations: list[Object]) -> bool:
    return any(
        item.get("effect") in (None, "", taint.get("effect"))
        and (
            (item.get("operator") == "Exists" and item.get("key") in (None, "", taint["key"]))
            or (item.get("key") == taint["key"] and (item.get("value") or "") == (taint.get("value") or ""))
        )
        for item in tolerations
    )


def _selected(spec: Object, node: Node) -> bool:
    labels = node.item["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term(term, labels, node.label) for term in required.get("nodeSelectorTerms") or [])


def _term(term: Object, labels: dict[str, str], node: str) -> bool:
    rules = [(rule, labels.get(rule["key"])) for rule in term.get("matchExpressions") or []]
    rules += [(rule, node) for rule in term.get("matchFields") or []]
    return bool(rules) and all(_holds(rule, value) for rule, value in rules)


def _holds(rule: Object, value: str | None) -> bool:
    wanted = rule.get("values") or []
    match rule["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            if value is None or not value.lstrip("-").isdigit() or not wanted[0].lstrip("-").isdigit():
                return False
            return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])
    return False


def claim_fault(task: Task, claims: dict[tuple[str, str], Object]) -> str:
    """Why the pod's volumes keep it off every node; the empty text if they do not."""
    for volume in task.pod["spec"].get("volumes") or []:
        called = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not called:
            continue
        claim = claims.get((namespace(task.pod), called))
        if claim is None:
            return f'persistentvolumeclaim "{called}" not found'
        if not claim["spec"].get("volumeName") and not claim["spec"].get("storageClassName"):
            return "plugin VolumeZone pre-predicates failed PersistentVolumeClaim had no pv name and storageClass name"
    return ""


def shape(task: Task) -> str:
    """Equal for pods that the same nodes may take, so that the answer is found once."""
    spec = task.pod["spec"]
    return repr([spec.get(key) for key in ("nodeSelector", "affinity", "tolerations")])


# --- where is it best


@dataclass(frozen=True)
class Weights:
    """How much each wish counts: of the plugins binpack and nodeorder."""

    binpack: float
    packed: dict[str, float]
    least: float
    most: float
    balanced: float
    spread: float

    @classmethod
    def of(cls, settings: Settings) -> Weights:
        order = settings.plugins["nodeorder"] if settings.has("nodeorder", "enableNodeOrder") else None
        wishes = (("leastrequested", 1), ("mostrequested", 0), ("balancedresource", 1), ("podtopologyspread", 2))
        parts = [order.number(f"{wish}.weight", weight) if order else 0 for wish, weight in wishes]
        if not settings.has("binpack", "enableNodeOrder"):
            return cls(0, {}, *parts)
        binpack = settings.plugins["binpack"]
        return cls(binpack.number("binpack.weight", 1), binpack.weights("binpack"), *parts)


def scores(task: Task, nodes: list[Node], snapshot: Snapshot, weights: Weights) -> dict[str, float]:
    """The score of each node. Packs what it is told to pack; pods of one Service are kept apart."""
    spread = _spread(task, nodes, snapshot) if weights.spread else {}
    return {n.label: score(task.request, n, weights) + weights.spread * spread.get(n.label, 0) for n in nodes}


def score(request: Resources, node: Node, weights: Weights) -> float:
    """Binpack, least and most allocated and balanced allocation, each as Volcano weighs it."""
    return (
        weights.binpack * _packed(request, node, weights.packed)
        + weights.least * _least(request, node)
        + weights.most * (100 - _least(request, node))
        + weights.balanced * _balanced(request, node)
    )


def _packed(request: Resources, node: Node, weights: dict[str, float]) -> float:
    total, whole = 0.0, 0.0
    for resource, weight in weights.items():
        asked, capacity = request.get(resource, 0), node.allocatable.get(resource, 0)
        if asked:
            after = node.used.get(resource, 0) + asked
            if after > capacity:
                return 0.0
            total += weight * after / capacity
            whole += weight
    return 100 * total / whole if whole else 0.0


def _share(request: Resources, node: Node, resource: str) -> float | None:
    capacity = node.allocatable.get(resource, 0)
    if not capacity:
        return None
    return min(1.0, (node.used.get(resource, 0) + request.get(resource, 0)) / capacity)


def _least(request: Resources, node: Node) -> int:
    shares = [share for r in ("cpu", "memory") if (share := _share(request, node, r)) is not None]
    return sum(int(100 * (1 - share)) for share in shares) // len(shares) if shares else 0


def _balanced(request: Resources, node: Node) -> int:
    wanted = [r for r in ("cpu", "memory", GPU) if r != GPU or request.get(GPU)]
    shares = [share for r in wanted if (share := _share(request, node, r)) is not None]
    if not shares:
        return 0
    mean = sum(shares) / len(shares)
    return int(100 * (1 - math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))))


def _spread(task: Task, nodes: list[Node], snapshot: Snapshot) -> dict[str, int]:
    """How well a node keeps the pods of the task's Services apart, 0 to 100; empty if it belongs to none.

    Kubernetes' default constraint: at most three more on one host than on another, as a wish.
    """
    labels = task.pod["metadata"].get("labels") or {}
    selector: dict[str, str] = {}
    for service in snapshot.services:
        wanted = service["spec"].get("selector") or {}
        if namespace(service) == namespace(task.pod) and wanted and wanted.items() <= labels.items():
            selector |= wanted
    if not selector:
        return {}
    counts = Counter(
        {
            node.label: sum(
                namespace(other.pod) == namespace(task.pod)
                and selector.items() <= (other.pod["metadata"].get("labels") or {}).items()
                for other in node.pods
            )
            for node in nodes
        }
    )
    weight = math.log(len(nodes) + 2)
    raw = {label: round(count * weight + 2) for label, count in counts.items()}
    high, low = max(raw.values()), min(raw.values())
    return {label: 100 * (high + low - value) // high for label, value in raw.items()}
