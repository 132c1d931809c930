"""Which nodes a plain pod may go to, in kube-scheduler's order and words.

Not looked at: ports of the host, volumes beyond whether a claim is there. Spreading over topologies is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from apps.localcluster.apiserver import pods, quantities
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Record, Store
from apps.localcluster.controllers.pods import ENDED

Object = dict[str, Any]
Amounts = dict[str, Decimal]

UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
CROWDED = "Too many pods"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
HELPLESS = (UNSCHEDULABLE, TAINTED, NOT_SELECTED, SPREAD)
"""Faults that no pod's going would mend."""
TAINT_KEY = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, eq=False)
class Pod:
    """What counts of a pod."""

    record: Record
    item: Object = field(repr=False)
    asks: Amounts

    @classmethod
    def read(cls, record: Record) -> Pod:
        item = record.load()
        return cls(record, item, pods.total(item["spec"], "requests") | {"pods": Decimal(1)})

    @property
    def node(self) -> str:
        return self.record.fields["spec.nodeName"]

    @property
    def priority(self) -> int:
        return int(self.item["spec"].get("priority", 0))

    @property
    def born(self) -> str:
        return str(self.item["metadata"]["creationTimestamp"])

    def terms(self, kind: str) -> list[Object]:
        """Required terms of `podAffinity` or `podAntiAffinity`."""
        affinity = (self.item["spec"].get("affinity") or {}).get(kind) or {}
        found: list[Object] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        return found


@dataclass(eq=False)
class Node:
    """A node with the pods that are on it, and what they leave."""

    record: Record
    item: Object
    allocatable: Amounts
    pods: list[Pod] = field(default_factory=list)
    free: Amounts = field(default_factory=dict)

    @classmethod
    def read(cls, record: Record) -> Node:
        item = record.load()
        allocatable = (item.get("status") or {}).get("allocatable") or {}
        return cls(record, item, {name: quantities.value(amount) for name, amount in allocatable.items()})

    @property
    def name(self) -> str:
        return self.record.key[1]

    @property
    def labels(self) -> dict[str, str]:
        return self.record.labels

    def with_pods(self, on_it: list[Pod]) -> Node:
        node = replace(self, pods=[], free=dict(self.allocatable))
        for pod in on_it:
            node.add(pod)
        return node

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        for name, amount in pod.asks.items():
            self.free[name] = self.free.get(name, Decimal(0)) - amount

    def remove(self, pod: Pod) -> None:
        self.pods.remove(pod)
        for name, amount in pod.asks.items():
            self.free[name] += amount

    def load(self) -> tuple[float, int]:
        """How full it is: the largest part of cpu and memory that is taken, and the number of pods."""
        parts = [
            1 - float(self.free[name] / whole) for name in ("cpu", "memory") if (whole := self.allocatable.get(name))
        ]
        return max(parts, default=0.0), len(self.pods)


@dataclass
class Memory:
    """Pods and nodes by version, kept from pass to pass."""

    pods: dict[int, Pod] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)


@dataclass
class View:
    """The cluster as one pass of the scheduler sees it."""

    store: Store
    memory: Memory

    @cached_property
    def nodes(self) -> list[Node]:
        records = [each for each in self.store.select("pods") if each.fields["spec.nodeName"]]
        running = [each for each in records if each.fields["status.phase"] not in ENDED]
        pods = {each.version: self.memory.pods.get(each.version) or Pod.read(each) for each in running}
        found = self.store.select("nodes")
        nodes = {each.version: self.memory.nodes.get(each.version) or Node.read(each) for each in found}
        self.memory.pods, self.memory.nodes = pods, nodes
        placed: dict[str, list[Pod]] = {}
        for pod in pods.values():
            placed.setdefault(pod.node, []).append(pod)
        return [node.with_pods(placed.get(node.name, [])) for node in nodes.values()]

    def faults(self, pod: Pod, node: Node) -> list[str]:
        """Why a pod cannot go to a node, by the first rule that it breaks; empty when it can."""
        spec = pod.item["spec"]
        if node.item["spec"].get("unschedulable") and not _tolerated({"key": TAINT_KEY, "effect": "NoSchedule"}, spec):
            return [UNSCHEDULABLE]
        taints = [each for each in node.item["spec"].get("taints") or () if each["effect"] != "PreferNoSchedule"]
        if not all(_tolerated(each, spec) for each in taints):
            return [TAINTED]
        if not _selected(spec, node):
            return [NOT_SELECTED]
        short = [name for name, amount in pod.asks.items() if amount > node.free.get(name, 0)]
        if short:
            return [CROWDED if name == "pods" else f"Insufficient {name}" for name in short]
        if any(
            each.get("whenUnsatisfiable") == "DoNotSchedule" for each in spec.get("topologySpreadConstraints") or ()
        ):
            return [SPREAD]
        return self._company(pod, node)

    def _company(self, pod: Pod, node: Node) -> list[str]:
        """Other pods that it wants near or far, or that want it far."""
        for other, place in self._others():
            if any(self._near(other, pod, term, place, node) for term in other.terms("podAntiAffinity")):
                return [EXISTING]
        for term in pod.terms("podAntiAffinity"):
            if any(self._near(pod, other, term, node, place) for other, place in self._others()):
                return [ANTI_AFFINITY]
        for term in pod.terms("podAffinity"):
            meant = [place for other, place in self._others() if self._means(pod, other, term)]
            alone = not meant and self._means(pod, pod, term)
            if not alone and not any(_together(term, node, place) for place in meant):
                return [AFFINITY]
        return []

    def _others(self) -> Iterator[tuple[Pod, Node]]:
        return ((pod, node) for node in self.nodes for pod in node.pods)

    def _near(self, owner: Pod, other: Pod, term: Object, here: Node, there: Node) -> bool:
        return _together(term, here, there) and self._means(owner, other, term)

    def _means(self, owner: Pod, other: Pod, term: Object) -> bool:
        """Whether a term of `owner` is about `other`."""
        namespaces = set(term.get("namespaces") or ())
        if (selector := term.get("namespaceSelector")) is not None:
            spaces = self.store.select("namespaces")
            namespaces |= {each.key[1] for each in spaces if matches_labels(selector, each.labels)}
        elif not namespaces:
            namespaces = {owner.record.key[0]}
        selector = term.get("labelSelector")
        same = other.record.key[0] in namespaces
        return same and selector is not None and matches_labels(selector, other.record.labels)


def _together(term: Object, here: Node, there: Node) -> bool:
    key = term["topologyKey"]
    return key in here.labels and here.labels[key] == there.labels.get(key)


def _tolerated(taint: Object, spec: Object) -> bool:
    return any(tolerates(each, taint) for each in spec.get("tolerations") or ())


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether one toleration bears one taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _selected(spec: Object, node: Node) -> bool:
    if any(node.labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Object, node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    facts = [(each, node.labels) for each in expressions] + [(each, {"metadata.name": node.name}) for each in fields]
    return bool(facts) and all(_holds(each, labels) for each, labels in facts)


def _holds(expression: Object, labels: dict[str, str]) -> bool:
    if expression["operator"] in ("Gt", "Lt"):
        value, bound = labels.get(expression["key"], ""), (expression.get("values") or ["0"])[0]
        if not value.lstrip("-").isdigit():
            return False
        return int(value) > int(bound) if expression["operator"] == "Gt" else int(value) < int(bound)
    return matches_labels({"matchExpressions": [expression]}, labels)


def summary(faults: Iterable[list[str]], total: int) -> str:
    """How often each fault was found, as kube-scheduler tells it."""
    counts: dict[str, int] = {}
    for each in faults:
        for fault in each:
            counts[fault] = counts.get(fault, 0) + 1
    told = ", ".join(sorted(f"{count} {fault}" for fault, count in counts.items()))
    return f"0/{total} nodes are available: {told}."
