"""HyperNodes: which nodes are near each other, and where a gang that asks for nearness may go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.objects import name
from apps.localcluster.volcano.quantity import Resources
from apps.localcluster.volcano.scheduler.model import Job, Node, Task
from apps.localcluster.volcano.scheduler.settings import Plugin

Object = dict[str, Any]

TOP = "<cluster-top-hypernode>"
_FADING = 0.8  # how much less a wider domain counts for pods that ask for no nearness


def members(selector: Object, nodes: Iterable[Object]) -> set[str]:
    """Names that a member's selector stands for. An exact name counts whether there is such a node or not."""
    if exact := (selector.get("exactMatch") or {}).get("name"):
        return {exact}
    if pattern := (selector.get("regexMatch") or {}).get("pattern"):
        return {name(node) for node in nodes if re.search(pattern, name(node))}
    wanted = selector.get("labelMatch") or {}
    labels, rules = wanted.get("matchLabels") or {}, wanted.get("matchExpressions") or []
    if not labels and not rules:
        return set()
    rules = [*rules, *({"key": key, "operator": "In", "values": [value]} for key, value in labels.items())]
    return {name(node) for node in nodes if all(_holds(rule, node["metadata"].get("labels") or {}) for rule in rules)}


def _holds(rule: Object, labels: Mapping[str, str]) -> bool:
    value, wanted = labels.get(rule["key"]), rule.get("values") or []
    match rule["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
    return value is None


def count(hypernode: Object, nodes: Iterable[Object]) -> int:
    """`status.nodeCount`: the members that are named or matched."""
    known = list(nodes)
    selectors = (member.get("selector") or {} for member in hypernode["spec"].get("members") or [])
    return len(set().union(*(members(selector, known) for selector in selectors)))


@dataclass(eq=False)
class Domain:
    """A HyperNode with the real nodes below it; `used` follows what is placed there."""

    name: str
    tier: int
    nodes: dict[str, Node] = field(default_factory=dict)
    children: list[Domain] = field(default_factory=list)
    parent: Domain | None = None
    used: Resources = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.used = quantity.add(*(node.used for node in self.nodes.values()))
        self.allocatable = quantity.add(*(node.allocatable for node in self.nodes.values()))

    def line(self) -> Iterator[Domain]:
        """The domain and those around it, from the nearest."""
        around: Domain | None = self
        while around is not None:
            yield around
            around = around.parent

    def inside(self) -> Iterator[Domain]:
        yield self
        for child in self.children:
            yield from child.inside()

    def has_room(self, amounts: Resources) -> bool:
        later = quantity.add(*(node.releasing for node in self.nodes.values()))
        return not quantity.exceeding(quantity.add(self.used, amounts), quantity.add(self.allocatable, later))

    def packed(self, request: Resources, weights: Mapping[str, float]) -> float:
        """How full the domain is with this request in it, 0 to 1."""
        counted = {key: weights[key] for key, value in request.items() if value and weights.get(key)}
        after = {key: self.used.get(key, 0) + request[key] for key in counted}
        if not counted or any(after[key] > self.allocatable.get(key, 0) for key in counted):
            return 0.0
        return sum(w * after[key] / self.allocatable[key] for key, w in counted.items()) / sum(counted.values())


class Topology:
    """The tree of all HyperNodes below one domain that is the whole cluster."""

    def __init__(self, hypernodes: list[Object], nodes: dict[str, Node], plugin: Plugin) -> None:
        self.weight, self.weights = plugin.number("weight", 1), plugin.weights("hypernode.binpack")
        self.names = {h["spec"]["tierName"]: int(h["spec"]["tier"]) for h in hypernodes if h["spec"].get("tierName")}
        items = {name(item): item for item in hypernodes}
        self.tiers = sorted({int(item["spec"]["tier"]) for item in hypernodes})
        domains = {
            label: Domain(label, int(item["spec"]["tier"]), _real(item, items, nodes, {label}))
            for label, item in items.items()
        }
        self.top = Domain(TOP, max([0, *self.tiers]) + 1, nodes)
        for label, item in items.items():
            for child in sorted(_below(item, items)):
                if domains[child].parent is None and child != label:
                    domains[child].parent = domains[label]
                    domains[label].children.append(domains[child])
        for domain in domains.values():
            if domain.parent is None:
                domain.parent = self.top
                self.top.children.append(domain)
        self.at: dict[str, list[Domain]] = {label: [self.top] for label in nodes}
        for domain in sorted(domains.values(), key=lambda d: (-d.tier, d.name)):
            for label in domain.nodes:
                self.at[label].insert(0, domain)

    def shift(self, node: Node, request: Resources) -> None:
        """Count what is placed on a node (negative amounts: taken away)."""
        for domain in self.at[node.label]:
            domain.used = quantity.add(domain.used, request)

    def choices(self, job: Job) -> list[list[Domain]]:
        """Where a gang may be placed whole: groups of domains, the nearest first. Without a hard limit: anywhere."""
        allowed = self._allowed(job.topology)
        if allowed is None:
            return [[self.top]]
        held, root = self._held(job), self.top
        for domain in held.line() if held else ():
            if domain.tier <= allowed:
                root = domain
        if held and root.tier > allowed:
            return []
        asked = job.asked or {}
        inside = [d for d in root.inside() if d.tier <= allowed and (held is not None or d.has_room(asked))]
        tiers = sorted({domain.tier for domain in inside})
        return [[domain for domain in inside if domain.tier == tier] for tier in tiers]

    def _allowed(self, wanted: Object | None) -> int | None:
        """The highest tier a gang may span; None if it does not ask, or asks for a tier that nobody knows."""
        if not wanted:
            return None
        if wanted.get("mode") == "soft":
            return self.top.tier
        allowed = wanted.get("highestTierAllowed")
        return self.names.get(wanted.get("highestTierName") or "") if allowed is None else int(allowed)

    def _held(self, job: Job) -> Domain | None:
        """The nearest domain around what the gang holds already; None if it holds nothing."""
        places = [self.at[task.node] for task in job.tasks if task.occupying and task.node in self.at]
        if not places:
            return None
        return next((domain for domain in places[0] if all(domain in place for place in places)), self.top)

    def rank(self, job: Job, domain: Domain) -> tuple[float, int, str]:
        """Sorts domains of one tier, the best one first: fullest, then with most of the gang, then by name."""
        request = quantity.add(*(task.request for task in job.tasks))
        there = sum(task.node in domain.nodes for task in job.tasks)
        return (-domain.packed(request, self.weights), -there, domain.name)

    def scores(self, job: Job, task: Task, nodes: Iterable[Node]) -> dict[str, float]:
        """What nearness adds to the score of each node."""
        near = self._nearness(job) if job.topology else {}
        parts = {n.label: near.get(n.label, 0.0) if job.topology else self._filling(task, n) for n in nodes}
        return {label: 100 * self.weight * part for label, part in parts.items()}

    def _nearness(self, job: Job) -> dict[str, float]:
        held = self._held(job)
        if held is None:
            return {}
        around, (low, high) = set(held.line()), (self.tiers[0], self.tiers[-1]) if self.tiers else (0, 0)
        mine = Counter(self.at[task.node][0] for task in job.tasks if task.node in self.at)
        parts = {}
        for label, domains in self.at.items():
            common = next(domain for domain in domains if domain in around)
            near = 1.0 if common is held or low == high else max(0.0, (high - common.tier) / (high - low))
            parts[label] = near + mine[domains[0]] / len(job.tasks)
        return parts

    def _filling(self, task: Task, node: Node) -> float:
        """Pods that ask for nothing fill domains that are in use; wider ones count less."""
        weights = {tier: _FADING ** (tier - 1) for tier in self.tiers}
        parts = dict.fromkeys(self.tiers, 1.0)
        for domain in self.at[node.label]:
            if domain.tier in parts:
                parts[domain.tier] = domain.packed(task.request, self.weights)
        return sum(weights[tier] * part for tier, part in parts.items()) / sum(weights.values()) if weights else 0.0


def _below(item: Object, items: Mapping[str, Object]) -> set[str]:
    """The HyperNodes that a HyperNode names as members."""
    inner = [m.get("selector") or {} for m in item["spec"].get("members") or [] if m.get("type") == "HyperNode"]
    return set().union(*(members(selector, items.values()) for selector in inner)) & items.keys()


def _real(item: Object, items: dict[str, Object], nodes: dict[str, Node], above: set[str]) -> dict[str, Node]:
    """The real nodes below a HyperNode. Members that lead back to it are left out."""
    known = [node.item for node in nodes.values()]
    found: set[str] = set()
    for member in item["spec"].get("members") or []:
        if member.get("type") != "HyperNode":
            found |= members(member.get("selector") or {}, known)
    for child in _below(item, items) - above:
        found |= _real(items[child], items, nodes, {*above, child}).keys()
    return {label: nodes[label] for label in sorted(found & nodes.keys())}
