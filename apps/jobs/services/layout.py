"""What a draft would take, as a picture: its ranks on nodes as these are now, and the quota behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apps.clusters.services import NodeSpace
from apps.jobs.services.overview import Plan

MOST_NODES = 6


@dataclass(frozen=True)
class Spot:
    """A node with the ranks it could take: `cells` has a word for each accelerator, "" for one that stays free, the
    rank's number for its own, None for one that others have."""

    node: NodeSpace
    cells: list[str | None]
    free: int


@dataclass(frozen=True)
class Share:
    """A part of a bar: `x` and `width` in percent."""

    look: str
    x: float
    width: float
    count: int


@dataclass(frozen=True)
class Layout:
    """`spots` are the first nodes of those it would take, `more` the number of the others."""

    spots: list[Spot]
    more: int
    shares: list[Share]
    after: int


def layout_of(plan: Plan) -> Layout:
    """An example where everything fits now; the scheduler decides. Nodes that are fullest come first, as it packs."""
    spots: list[Spot] = []
    if plan.verdict == "fits" and plan.room and plan.ranks and plan.gpus_per_rank:
        spots = _spots(plan.room.nodes, plan.ranks, plan.gpus_per_rank)
    if plan.use is None:
        return Layout(spots[:MOST_NODES], max(0, len(spots) - MOST_NODES), [], 0)
    asked = plan.gpus or 0
    counts = {"used": plan.use.used, "held": max(0, plan.use.held - plan.use.used), "asked": asked}
    whole = max(plan.use.limit, sum(counts.values()), 1)
    shares, x = [], 0.0
    for look, count in counts.items():
        shares.append(Share(look, x, 100 * count / whole, count))
        x += 100 * count / whole
    return Layout(spots[:MOST_NODES], max(0, len(spots) - MOST_NODES), shares, plan.use.held + asked)


def _spots(nodes: Iterable[NodeSpace], ranks: int, each: int) -> list[Spot]:
    found, rank = [], 0
    for node in sorted((node for node in nodes if node.free >= each), key=lambda node: (node.free, node.name)):
        taken = min(node.free // each, ranks - rank)
        own = [str(rank + index // each) for index in range(taken * each)]
        others: list[str | None] = [None] * (node.total - node.free)
        left = node.free - len(own)
        found.append(Spot(node, [*others, *own, *[""] * left], left))
        rank += taken
        if rank == ranks:
            break
    return found
