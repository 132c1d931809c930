"""What an engine has to say of itself for the portal to serve models with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Facts = Mapping[str, Any]
"""What the catalog read from a version's files: `format`, `parameters`, `bytes`, `context`, …; any may be missing."""


class Device(StrEnum):
    """Where an engine keeps the model."""

    ACCELERATOR = "accelerator"
    HOST = "host"


@dataclass(frozen=True)
class Operand:
    """One term of the memory a replica needs; `code` is put into words, with `params`."""

    code: str
    bytes: int
    params: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Serving:
    """What the container is told: the directory of the files, the port, and the name the model answers to."""

    directory: str
    port: int
    model: str


@dataclass(frozen=True)
class Engine:
    """`formats` are those of `facts["format"]` it reads. `need` says what one replica needs, `startup_seconds` how long
    it may take until it listens. `splits` says whether it spreads one replica over several accelerators.

    `fetch` is the command, in the engine's image, that brings the files: it is told the ticket's folder and where to.
    `started` is a path that answers once the model is in memory, `ready` one that answers after a real token was made.
    """

    key: str
    name: str
    formats: frozenset[str]
    image: str
    port: int
    device: Device
    splits: bool
    fetch: Callable[[str, str], list[str]]
    command: Callable[[Serving], list[str]]
    need: Callable[[Facts], list[Operand]]
    startup_seconds: Callable[[Facts], int]
    started: str
    ready: str

    def reads(self, facts: Facts) -> bool:
        return facts.get("format") in self.formats


def whole(facts: Facts, name: str) -> int:
    """A count among the facts; 0 where it is missing or no count."""
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
