"""What is near: the HyperNode a node is in (the nearest one, of the lowest tier), the NUMA nodes its cores are in."""

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


@dataclass(frozen=True)
class Zone:
    """A NUMA node of a machine: its cores as Linux lists them (`0-15,32-47`) and the socket they are in."""

    number: int
    socket: int
    cpus: str
    count: int


@dataclass(frozen=True)
class Numa:
    """How the cores of a node lie, and the kubelet's policies: whether whole cores are given away (`static`), and
    whether what a pod gets must be near each other (`single-numa-node`)."""

    zones: tuple[Zone, ...]
    cpu_policy: str = ""
    placing_policy: str = ""
    reserved_cpu: str = ""


def zones(cores: Iterable[tuple[int, int, int]]) -> tuple[Zone, ...]:
    """The NUMA nodes that these cores (number, NUMA node, socket) make, by number."""
    found: dict[int, list[tuple[int, int]]] = {}
    for cpu, number, socket in cores:
        found.setdefault(number, []).append((cpu, socket))
    return tuple(
        Zone(number, min(socket for _, socket in members), cpu_list(cpu for cpu, _ in members), len(members))
        for number, members in sorted(found.items())
    )


def cpu_list(cpus: Iterable[int]) -> str:
    """Numbers as Linux lists them: 0, 1, 2, 7 is `0-2,7`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
