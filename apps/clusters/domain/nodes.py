"""A node as it was read: what it has and offers, what holds it, and what is the matter with it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from apps.clusters.domain.accelerators import Accelerator, Catalogue, is_extended
from apps.clusters.domain.capacity import COUNT_LIMIT, NodeSpace, count
from apps.clusters.domain.quantity import thousandths, whole
from apps.clusters.domain.topology import Numa

TEXT_LIMIT = 300
CPU, MEMORY, PODS = "cpu", "memory", "pods"
_READERS: dict[str, Callable[[str], int]] = {CPU: thousandths, MEMORY: whole}
POOL_LABELS = ("node-role", "node.kubernetes.io/pool")
ROLE_PREFIX = "node-role.kubernetes.io/"
NUMA_LABEL = "feature.node.kubernetes.io/memory-numa"
_FEATURES = "feature.node.kubernetes.io/"
_POSITIVE = ("Ready", "Healthy", "Available", "OK")
"""How conditions end that are well when True; all others (pressure, deadlock) are well when False."""
BARRING = ("NoSchedule", "NoExecute")
CORDON = "node.kubernetes.io/unschedulable"


class Problem(StrEnum):
    """What is the matter with a node, the worst first. `TAINTED`, `CORDONED` and `OLD_DRIVER` are not illness."""

    SILENT = "silent"
    NOT_READY = "not-ready"
    CONDITION = "condition"
    DEVICES = "devices"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    OLD_DRIVER = "old-driver"

    @property
    def is_ill(self) -> bool:
        return self in ILL


ILL = (Problem.SILENT, Problem.NOT_READY, Problem.CONDITION, Problem.DEVICES)


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    @property
    def bars(self) -> bool:
        """Whether it keeps pods away that do not tolerate it."""
        return self.effect in BARRING


@dataclass(frozen=True)
class Condition:
    """`since` is as the API writes times."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""

    @property
    def is_bad(self) -> bool:
        return self.status != "True" if self.type.endswith(_POSITIVE) else self.status == "True"


@dataclass(frozen=True)
class Holding:
    """A pod on a node with its accelerators. `label` and `row` name the portal's row it belongs to, "" for none."""

    namespace: str
    pod: str
    amount: int
    label: str = ""
    row: str = ""


@dataclass(frozen=True)
class Amount:
    """Of a resource: what the machine has, what the node offers, and what pods hold of it."""

    physical: int
    offered: int
    held: int = 0


@dataclass(frozen=True)
class Raw:
    """A node as the API tells it, in the fields that are read."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    conditions: tuple[Condition, ...] = ()
    cordoned: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    address: str = ""


@dataclass(frozen=True)
class RawPod:
    """A pod that was placed: what it asks for, by resource, as whole units (cpu in thousandths)."""

    namespace: str
    name: str
    asks: Mapping[str, int]
    label: str = ""
    row: str = ""


@dataclass(frozen=True)
class SeenNode:
    """What is kept of a node. `facts` and `held` are plain data."""

    space: NodeSpace
    problem: str
    facts: dict[str, Any]
    held: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return self.space.name

    @cached_property
    def digest(self) -> str:
        """Equal for what would be kept alike."""
        content = json.dumps([asdict(self.space), self.problem, self.facts, self.held], sort_keys=True, default=str)
        return hashlib.blake2s(content.encode(), digest_size=16).hexdigest()

    def within(self, fabric: str, numa: Numa | None = None) -> SeenNode:
        """The same node as a member of a HyperNode, with how its cores lie."""
        if fabric == self.space.fabric and numa is None:
            return self
        facts = {**self.facts, "numa": asdict(numa)} if numa else self.facts
        return SeenNode(replace(self.space, fabric=fabric), self.problem, facts, self.held)


def see(node: Raw, pods: Iterable[RawPod], catalogue: Catalogue) -> SeenNode:
    """A node with the pods placed on it, in the catalogue's words."""
    pods = list(pods)
    amounts = _amounts(node, pods)
    resource = primary(amounts, node.labels, catalogue)
    amount = amounts.get(resource, Amount(0, 0))
    entry = catalogue.find(resource, node.labels) if resource else None
    product = called(entry, node.labels) if entry else ""
    driver = node.labels.get(entry.driver_label, "") if entry and entry.driver_label else ""
    old = bool(entry and driver and entry.driver_floor and is_older(driver, entry.driver_floor))
    physical = max(amount.physical, count(node.labels.get(entry.count_label, "")) if entry and entry.count_label else 0)
    ready = any(one.type == "Ready" and one.status == "True" for one in node.conditions)
    space = NodeSpace(
        name=node.name,
        product=product[:80],
        resource=resource[:120],
        total=amount.offered,
        used=amount.held,
        ready=ready,
        schedulable=not node.cordoned,
        tainted=any(taint.bars and taint.key != CORDON for taint in node.taints),
        accelerator=entry.slug if entry else "",
        physical=physical,
        device_memory=entry.memory_on(node.labels) if entry else None,
        pool=pool_of(node.labels)[:63],
        fabric="",
        free_cpu=_left(amounts[CPU]),
        free_memory=_left(amounts[MEMORY]),
        free_pods=_left(amounts[PODS]),
    )
    kept = {name: value for name, value in node.labels.items() if not name.startswith(_FEATURES) or name == NUMA_LABEL}
    facts = {
        "resources": {name: [a.physical, a.offered, a.held] for name, a in sorted(amounts.items())},
        "taints": [asdict(taint) for taint in node.taints],
        "conditions": [asdict(condition) for condition in node.conditions],
        "versions": {**node.versions, **({"driver": driver} if driver else {})},
        "labels": kept,
        "address": node.address,
    }
    found = worst(space, node.conditions, old)
    return SeenNode(space, found.value if found else "", facts, _held(pods, resource))


def called(entry: Accelerator, labels: Mapping[str, str]) -> str:
    """What people call an accelerator: the node's word for it, unless that says nothing without its maker (`910B`)."""
    told = entry.product(labels)
    return told if told and (not entry.products or entry.vendor.lower() in told.lower()) else entry.name


def _left(amount: Amount) -> int:
    return max(0, amount.offered - amount.held)


def _held(pods: list[RawPod], resource: str) -> list[dict[str, Any]]:
    if not resource:
        return []
    found = [Holding(p.namespace, p.name, p.asks[resource], p.label, p.row) for p in pods if p.asks.get(resource)]
    return [asdict(one) for one in sorted(found, key=lambda one: (one.namespace, one.pod))]


def _amounts(node: Raw, pods: list[RawPod]) -> dict[str, Amount]:
    """Of cpu (thousandths), memory (bytes), pods, and every resource of somebody else than Kubernetes."""
    names = {CPU, MEMORY, PODS} | {name for name in {*node.capacity, *node.allocatable} if is_extended(name)}
    found = {}
    for name in names:
        read = _READERS.get(name, count)
        held = len(pods) if name == PODS else sum(pod.asks.get(name, 0) for pod in pods)
        found[name] = Amount(read(node.capacity.get(name, "")), read(node.allocatable.get(name, "")), held)
    return found


def primary(amounts: Mapping[str, Amount], labels: Mapping[str, str], catalogue: Catalogue) -> str:
    """The resource that counts a node's accelerators: whole devices before slices before shares, then the most of one;
    "" for none. Memory and time of a device are no accelerators, however large their numbers."""
    found = []
    for name, amount in amounts.items():
        entry = catalogue.find(name, labels) if "/" in name else None
        if entry is not None and entry.counts.is_accelerator and max(amount.physical, amount.offered):
            rank = list(type(entry.counts)).index(entry.counts)
            found.append((rank, -max(amount.offered, amount.physical), name))
    return min(found)[2] if found else ""


def pool_of(labels: Mapping[str, str]) -> str:
    """The role a node plays: train, infer, cpu, storage …"""
    if named := next((labels[name] for name in POOL_LABELS if labels.get(name)), ""):
        return named
    roles = sorted(name.removeprefix(ROLE_PREFIX) for name in labels if name.startswith(ROLE_PREFIX))
    return next((role for role in roles if role), "")


def worst(space: NodeSpace, conditions: Iterable[Condition], old_driver: bool) -> Problem | None:
    """What is most the matter with a node; None if nothing is."""
    conditions = list(conditions)
    ready = next((one.status for one in conditions if one.type == "Ready"), "Unknown")
    checks = (
        (Problem.SILENT, ready == "Unknown"),
        (Problem.NOT_READY, ready != "True"),
        (Problem.CONDITION, any(one.is_bad for one in conditions if one.type != "Ready")),
        (Problem.DEVICES, space.total < min(space.physical, COUNT_LIMIT)),
        (Problem.CORDONED, not space.schedulable),
        (Problem.TAINTED, space.tainted),
        (Problem.OLD_DRIVER, old_driver),
    )
    return next((problem for problem, holds in checks if holds), None)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version (`v1.36.1` is (1, 36, 1)); () for none."""
    found = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def is_older(version: str, floor: str) -> bool:
    """Whether a version is below another one; what cannot be read is not."""
    here, least = numbers(version), numbers(floor)
    return bool(here and least) and here < least


def kubelet_lag(kubelet: str, server: str) -> str:
    """ "old" for a kubelet more than three minor versions behind its API server, "ahead" for one before it, else "":
    what Kubernetes supports."""
    here, there = numbers(kubelet)[:2], numbers(server)[:2]
    if len(here) < 2 or len(there) < 2 or here == there:
        return ""
    if here > there:
        return "ahead"
    return "old" if here[0] < there[0] or there[1] - here[1] > 3 else ""
