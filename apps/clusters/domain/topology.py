"""Which HyperNode a node is in: the nearest one, of the lowest tier."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LONGEST_PATTERN = 512


@dataclass(frozen=True)
class Member:
    """Nodes by exact name, by pattern, or by labels; whichever is not empty."""

    exact: str = ""
    pattern: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def takes(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.exact:
            return name == self.exact
        if self.pattern:
            try:
                return len(self.pattern) <= LONGEST_PATTERN and re.search(self.pattern, name) is not None
            except re.error:
                return False
        return bool(self.labels) and all(labels.get(key) == value for key, value in self.labels)


@dataclass(frozen=True)
class HyperNode:
    name: str
    tier: int
    members: tuple[Member, ...]


def fabrics(hypernodes: Iterable[HyperNode], nodes: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The HyperNode of each node that is in one, by the node's name."""
    order = sorted(hypernodes, key=lambda one: (one.tier, one.name))
    exact: dict[str, str] = {}
    for one in order:
        for member in one.members:
            if member.exact:
                exact.setdefault(member.exact, one.name)
    loose = [(one.name, member) for one in order for member in one.members if not member.exact]
    found = {}
    for name, labels in nodes:
        near = exact.get(name) or next((home for home, member in loose if member.takes(name, labels)), "")
        if near:
            found[name] = near
    return found
