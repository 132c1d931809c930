"""What can be wrong with a request: a code and its operands, put into words by `services.messages`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault of one field ("" for the whole); `code` names a message."""

    field: str
    code: str
    params: dict[str, str | int | float] = dataclasses.field(default_factory=dict)


class InvalidRequest(ValueError):
    """A request that cannot become a deployment or a change of one; `problems` holds every fault found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(", ".join(f"{p.field}: {p.code}" for p in problems))
        self.problems = problems


MOST_REPLICAS = 64
NAME_LIMIT = 63


def read_name(raw: object) -> str:
    """The name people read, in any script; objects in the cluster are named after the id. Raises InvalidRequest."""
    name = raw.strip() if isinstance(raw, str) else ""
    if not name:
        raise InvalidRequest([Problem("name", "required")])
    if len(name) > NAME_LIMIT:
        raise InvalidRequest([Problem("name", "too-long", {"maximum": NAME_LIMIT, "length": len(name)})])
    if not name.isprintable():
        raise InvalidRequest([Problem("name", "unprintable")])
    if set(name) & set("/\\<>"):
        raise InvalidRequest([Problem("name", "name-characters")])
    return name


def read_replicas(raw: object, *, minimum: int = 1) -> int:
    """A whole number of replicas; "1.5" and "1e3" are refused, not rounded. Raises InvalidRequest."""
    text = str(raw).strip()
    if isinstance(raw, bool) or not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidRequest([Problem("replicas", "not-whole", {"value": text[:40]})])
    if not minimum <= int(text) <= MOST_REPLICAS:
        bounds: dict[str, str | int | float] = {"minimum": minimum, "maximum": MOST_REPLICAS, "value": text}
        raise InvalidRequest([Problem("replicas", "out-of-range", bounds)])
    return int(text)
