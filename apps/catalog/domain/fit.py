"""Where a model would find room now, counted by the memory of accelerators as their products' names tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

GIB = 1 << 30
USABLE = 0.9
"""The share of a memory that is planned with; the rest is the driver's."""
BESIDE = 1.2
"""Weights, and a fifth of them for what an engine needs beside them at the least."""
MOST = 8
"""Accelerators of one node that one replica takes at most."""

_MEMORY = re.compile(r"(?<![0-9])(\d{1,3}) ?(?:GiB|GB|G)(?![A-Za-z0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class FreeNode:
    """A node with `free` accelerators of a product, in a cluster. `memory` is the bytes of one, None if unknown."""

    cluster: str
    product: str
    free: int
    memory: int | None = None


@dataclass(frozen=True)
class Places:
    """`places` replicas of `each` accelerators would find room on one product in one cluster. `known` is false where
    the product's memory is not known, and free accelerators are all that is counted."""

    cluster: str
    product: str
    each: int
    places: int
    known: bool


def memory_of(product: str) -> int | None:
    """Bytes of one accelerator (`NVIDIA-A800-SXM4-80GB`); None where the name does not tell."""
    found = _MEMORY.search(product)
    return int(found[1]) * GIB if found else None


def accelerators_for(need: int, memory: int | None) -> int | None:
    """How many accelerators of so much memory hold `need` bytes: a power of two, as engines split; None: too many."""
    if memory is None:
        return 1
    least = ceil(need / (memory * USABLE)) or 1
    each = 1 << (least - 1).bit_length()
    return each if each <= MOST else None


def places(weight_bytes: int | None, nodes: Iterable[FreeNode]) -> list[Places]:
    """Room for a model by cluster and product, the most first; products it never fits on are left out."""
    if not weight_bytes:
        return []
    need = ceil(weight_bytes * BESIDE)
    same: dict[tuple[str, str], list[FreeNode]] = {}
    for node in nodes:
        same.setdefault((node.cluster, node.product), []).append(node)
    found = []
    for (cluster, product), group in same.items():
        told = min((node.memory for node in group if node.memory), default=None)
        memory, counts = told or memory_of(product), [node.free for node in group]
        if each := accelerators_for(need, memory):
            found.append(Places(cluster, product, each, sum(n // each for n in counts), memory is not None))
    return sorted(found, key=lambda one: (-one.places, one.each, one.cluster, one.product))
