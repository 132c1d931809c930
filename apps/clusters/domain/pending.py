"""Why a gang has no place: what stands in its way in its queue, in those above it, and on the nodes.

The words of the scheduler do not tell: it says the same of a gang that fits tomorrow and of one that never will, and
blames the limit of queues that have none. So it is counted here, by resource, from what queues and nodes offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from apps.clusters.domain.capacity import Need, NodeSpace, places
from apps.clusters.domain.nodes import CPU, MEMORY, PODS
from apps.clusters.domain.queues import ROOT, QueueSeen


class Code(StrEnum):
    """What stands in the way, what is for good before what passes."""

    QUEUE_NEVER = "queue-never"
    FLEET_NEVER = "fleet-never"
    NODE_NEVER = "node-never"
    QUEUE_CLOSED = "queue-closed"
    QUEUE_FULL = "queue-full"
    NODES_OUT = "nodes-out"
    FLEET_FULL = "fleet-full"
    PIECES = "pieces"
    NODE_SHORT = "node-short"

    @property
    def is_lasting(self) -> bool:
        """Whether waiting alone changes nothing."""
        return self in (Code.QUEUE_NEVER, Code.FLEET_NEVER, Code.NODE_NEVER, Code.QUEUE_CLOSED)


@dataclass(frozen=True)
class Gang:
    """Pods that start together: how many, and what each asks for by resource (cpu in thousandths, memory in bytes).
    `accelerator` names the resource that counts its accelerators."""

    ranks: int
    accelerator: str
    each: Mapping[str, int]

    @property
    def asked(self) -> dict[str, int]:
        return {name: self.ranks * amount for name, amount in self.each.items() if amount}

    @property
    def need(self) -> Need:
        return Need(self.each[self.accelerator], self.each.get(CPU, 0), self.each.get(MEMORY, 0))


@dataclass(frozen=True)
class Line:
    """One resource in a queue, or on all nodes. `limit` is the most that may be had, None where nothing limits it;
    `promised` is kept for gangs that were let in and have no nodes yet."""

    resource: str
    asked: int
    used: int
    promised: int = 0
    deserved: int | None = None
    limit: int | None = None

    @property
    def free(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used - self.promised)

    @property
    def short(self) -> int:
        """How much more must come free."""
        return 0 if self.free is None else max(0, self.asked - self.free)

    @property
    def is_never(self) -> bool:
        return self.limit is not None and self.asked > self.limit


@dataclass(frozen=True)
class Account:
    """A queue's lines. `unnamed` are the resources asked for that its limit says nothing of, where it has one."""

    queue: str
    state: str
    lines: tuple[Line, ...]
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Obstacle:
    """`line` has its numbers; `queue` is "" for nodes. `most` is the most that would do: what one node offers, or how
    many ranks find room now."""

    code: Code
    line: Line
    queue: str = ""
    most: int = 0


@dataclass(frozen=True)
class Fleet:
    """The nodes that offer the gang's accelerator, alike ones together with their number. `biggest` is the most that
    any of them offers, by resource, where that was counted. Unless the cluster's nodes were `seen` it means nothing."""

    nodes: Sequence[tuple[NodeSpace, int]] = ()
    biggest: Mapping[str, int] = field(default_factory=dict)
    seen: bool = True

    @property
    def total(self) -> int:
        return sum(node.total * count for node, count in self.nodes)

    @property
    def usable(self) -> int:
        return sum(node.total * count for node, count in self.nodes if node.usable)

    @property
    def free(self) -> int:
        return sum(node.free * count for node, count in self.nodes)

    def ranks(self, need: Need) -> int:
        """How many pods find room now."""
        return sum(places(node, need) * count for node, count in self.nodes)


@dataclass(frozen=True)
class Finding:
    """The accounts of the gang's queue and of those above it, the accelerators of the nodes (`unusable` lie on nodes
    that take no pods), how many of its ranks find room now, and all that stands in its way, the worst first.

    `fits_as` is a number of accelerators a rank with which as many in all would start now, where only the size of the
    ranks is in the way.
    """

    gang: Gang
    accounts: tuple[Account, ...]
    nodes: Line
    unusable: int
    ranks: int
    obstacles: tuple[Obstacle, ...]
    fits_as: int | None = None


def examine(gang: Gang, queue: str, queues: Iterable[QueueSeen], fleet: Fleet, promised: Mapping[str, int]) -> Finding:
    """Count what the gang asks for against what there is. `promised` is kept in its queue for other gangs that were let
    in. Of what was not seen (an unknown queue, no nodes) nothing is said."""
    known = {one.name: one for one in queues}
    accounts = tuple(_account(gang, one, known, fleet, promised) for one in _line(queue, known))
    nodes = Line(gang.accelerator, gang.asked[gang.accelerator], fleet.usable - fleet.free, limit=fleet.usable)
    ranks = fleet.ranks(gang.need)
    found = [*_in_queues(accounts, gang, fleet), *(_on_nodes(gang, nodes, fleet, ranks) if fleet.seen else ())]
    found.sort(key=lambda one: list(Code).index(one.code))
    only_pieces = bool(found) and all(one.code is Code.PIECES for one in found)
    smaller = _smaller(gang, fleet) if only_pieces else None
    return Finding(gang, accounts, nodes, fleet.total - fleet.usable, ranks, tuple(found), smaller)


def _line(name: str, known: Mapping[str, QueueSeen]) -> list[QueueSeen]:
    """The queue and those above it, without the root."""
    found: list[QueueSeen] = []
    while name in known and name != ROOT and known[name] not in found:
        found.append(known[name])
        name = known[name].parent
    return found


def _account(
    gang: Gang, queue: QueueSeen, known: Mapping[str, QueueSeen], fleet: Fleet, promised: Mapping[str, int]
) -> Account:
    lines = []
    for name, asked in gang.asked.items():
        limit = queue.capability.get(name)
        if limit == 0 and name in (CPU, MEMORY):
            limit = None  # the scheduler takes a cpu or memory of 0 for not given
        if name == gang.accelerator and fleet.seen:
            # What is guaranteed to others is not to be had, even while they do not use it.
            others = sum(one.guarantee.get(name, 0) for one in known.values() if one not in _line(queue.name, known))
            there = max(0, fleet.total - others)
            if limit is not None or others:
                limit = there if limit is None else min(limit, there)
        used, kept, deserved = queue.allocated.get(name, 0), promised.get(name, 0), queue.deserved.get(name)
        lines.append(Line(name, asked, used, kept, deserved, limit))
    unnamed = [name for name in (*gang.asked, PODS) if queue.capability and name not in queue.capability]
    return Account(queue.name, queue.state, tuple(lines), tuple(unnamed))


def _in_queues(accounts: Iterable[Account], gang: Gang, fleet: Fleet) -> list[Obstacle]:
    """A limit as large as the fleet is none of the queue's: then the fleet is what is short."""
    found = []
    for account in accounts:
        if account.state not in ("", "Open") and account.lines:
            found.append(Obstacle(Code.QUEUE_CLOSED, account.lines[0], account.queue))
        for line in account.lines:
            is_fleets = fleet.seen and line.resource == gang.accelerator and (line.limit or 0) >= fleet.total
            if line.short and not is_fleets:
                code = Code.QUEUE_NEVER if line.is_never else Code.QUEUE_FULL
                found.append(Obstacle(code, line, account.queue))
    return found


def _on_nodes(gang: Gang, nodes: Line, fleet: Fleet, ranks: int) -> list[Obstacle]:
    if nodes.asked > fleet.total:
        return [Obstacle(Code.FLEET_NEVER, nodes, most=fleet.total)]
    for name, amount in gang.each.items():
        if name in fleet.biggest and amount > fleet.biggest[name]:
            return [Obstacle(Code.NODE_NEVER, Line(name, amount, 0), most=fleet.biggest[name])]
    if nodes.is_never:
        return [Obstacle(Code.NODES_OUT, nodes, most=fleet.total - fleet.usable)]
    if nodes.short:
        return [Obstacle(Code.FLEET_FULL, nodes)]
    if ranks >= gang.ranks:
        return []
    need = gang.need
    if fleet.ranks(Need(need.each)) < gang.ranks:
        return [Obstacle(Code.PIECES, nodes, most=ranks)]
    short = MEMORY if fleet.ranks(Need(need.each, memory=need.memory)) < gang.ranks else CPU
    return [Obstacle(Code.NODE_SHORT, Line(short, gang.each.get(short, 0), 0), most=ranks)]


def _smaller(gang: Gang, fleet: Fleet) -> int | None:
    each, all_of = gang.need.each, gang.asked[gang.accelerator]
    for smaller in range(each - 1, 0, -1):
        if all_of % smaller == 0:
            need = Need(smaller, gang.need.cpu, gang.need.memory)
            if fleet.ranks(need) * smaller >= all_of:
                return smaller
    return None
