"""Counting accelerators: what nodes offer, what pods hold, and the largest job that would fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, DecimalException

COUNT_LIMIT = 4096
"""More than any node holds. The API server accepts 1e400."""


@dataclass(frozen=True)
class NodeSpace:
    """A node as the scheduler sees it. `total` and `used` count its accelerators as the node offers them, `physical` as
    the machine has them; `device_memory` is the bytes of one, None if unknown. `fabric` names the HyperNode it is in.
    `free_*` is what is left besides (cpu in thousandths, memory in bytes), None where nobody has counted it."""

    name: str
    product: str
    resource: str
    total: int
    used: int
    ready: bool
    schedulable: bool
    tainted: bool = False
    accelerator: str = ""
    physical: int = 0
    device_memory: int | None = None
    pool: str = ""
    fabric: str = ""
    free_cpu: int | None = None
    free_memory: int | None = None
    free_pods: int | None = None

    @property
    def usable(self) -> bool:
        """Whether it takes pods now that tolerate no taint, as the portal's do."""
        return self.ready and self.schedulable and not self.tainted

    @property
    def free(self) -> int:
        return max(0, self.total - self.used) if self.usable else 0

    @property
    def is_whole(self) -> bool:
        """Nothing runs on it and it can be used."""
        return self.total > 0 and self.free == self.total


@dataclass(frozen=True)
class Need:
    """What one pod of a gang asks for: accelerators, cpu in thousandths, memory in bytes."""

    each: int
    cpu: int = 0
    memory: int = 0


@dataclass(frozen=True)
class Piece:
    """Who leaves nodes in pieces: a namespace that holds the most of `nodes` nodes, on which `free` lie idle."""

    namespace: str
    nodes: int
    free: int


@dataclass(frozen=True)
class ProductSpace:
    """All nodes of one product. `largest_gang` counts the accelerators of its whole free nodes: what a job that needs
    whole nodes could have now. `unusable` lie on nodes that take no pods."""

    product: str
    nodes: int
    ready: int
    whole_free: int
    largest_gang: int
    total: int
    used: int
    free: int = 0
    unusable: int = 0


@dataclass(frozen=True)
class Capacity:
    """A cluster's accelerators, by product and in all."""

    products: tuple[ProductSpace, ...]

    @property
    def nodes(self) -> int:
        return sum(product.nodes for product in self.products)

    @property
    def whole_free(self) -> int:
        return sum(product.whole_free for product in self.products)

    @property
    def largest_gang(self) -> int:
        """Within one product: a gang does not mix them."""
        return max((product.largest_gang for product in self.products), default=0)

    @property
    def total(self) -> int:
        return sum(product.total for product in self.products)

    @property
    def used(self) -> int:
        return sum(product.used for product in self.products)

    @property
    def free(self) -> int:
        """What pods could have now, in whole nodes or in pieces."""
        return sum(product.free for product in self.products)

    @property
    def unusable(self) -> int:
        return sum(product.unusable for product in self.products)

    @property
    def free_whole(self) -> int:
        """What is free in whole nodes."""
        return sum(product.largest_gang for product in self.products)

    @property
    def in_pieces(self) -> int:
        return self.free - self.free_whole

    @property
    def fragmentation(self) -> float:
        """The share of what is free that lies in pieces, from 0 to 1."""
        return self.in_pieces / self.free if self.free else 0.0


def capacity_of(nodes: Iterable[NodeSpace]) -> Capacity:
    """Add nodes up; those without accelerators do not count."""
    by_product: dict[str, list[NodeSpace]] = {}
    for node in nodes:
        if node.total:
            by_product.setdefault(node.product, []).append(node)
    return Capacity(tuple(_product(name, group) for name, group in sorted(by_product.items())))


def _product(name: str, group: list[NodeSpace]) -> ProductSpace:
    whole = [node for node in group if node.is_whole]
    return ProductSpace(
        product=name,
        nodes=len(group),
        ready=sum(node.ready for node in group),
        whole_free=len(whole),
        largest_gang=sum(node.total for node in whole),
        total=sum(node.total for node in group),
        used=sum(node.used for node in group),
        free=sum(node.free for node in group),
        unusable=sum(node.total for node in group if not node.usable),
    )


def by_pool(nodes: Iterable[NodeSpace]) -> dict[str, Capacity]:
    """The capacity of each pool, by its name."""
    pools: dict[str, list[NodeSpace]] = {}
    for node in nodes:
        if node.total:
            pools.setdefault(node.pool, []).append(node)
    return {pool: capacity_of(group) for pool, group in sorted(pools.items())}


def places(node: NodeSpace, need: Need) -> int:
    """How many pods of a gang the node takes now, by everything that they ask for and that was counted."""
    if need.each < 1:
        raise ValueError("A pod of a gang has at least one accelerator.")
    room = [node.free // need.each]
    for left, asked in ((node.free_cpu, need.cpu), (node.free_memory, need.memory), (node.free_pods, 1)):
        if left is not None and asked:
            room.append(left // asked)
    return max(0, min(room))


def largest_gang(nodes: Iterable[NodeSpace], need: Need) -> int:
    """The most pods of one gang that are placed at once now, all on one product of one pool: no quota is looked at."""
    groups: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        groups[node.pool, node.product] += places(node, need)
    return max(groups.values(), default=0)


def pieces(nodes: Iterable[tuple[NodeSpace, Mapping[str, int]]]) -> list[Piece]:
    """Who leaves usable nodes in pieces, the most idle first. Each node comes with what each namespace holds there; it
    counts for the one that holds the most."""
    found: dict[str, list[int]] = {}
    for node, held in nodes:
        if node.free and held and not node.is_whole:
            blamed = max(sorted(held), key=lambda namespace: held[namespace])
            found.setdefault(blamed, []).append(node.free)
    blame = [Piece(namespace, len(free), sum(free)) for namespace, free in found.items()]
    return sorted(blame, key=lambda piece: (-piece.free, piece.namespace))


def count(quantity: str) -> int:
    """A whole number as Kubernetes writes it (`8`, `8e0`), between 0 and COUNT_LIMIT; 0 for what is none."""
    try:
        number = Decimal(quantity)
    except DecimalException:
        return 0
    if not number.is_finite() or number <= 0:
        return 0
    return COUNT_LIMIT if number >= COUNT_LIMIT else int(number)
