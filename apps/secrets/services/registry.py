"""What upper apps tell about work that uses secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """One piece of unfinished work that names a secret: `text` and `url` lead a person to it."""

    tenant_id: int
    name: str
    text: str
    url: str


@dataclass(frozen=True)
class UserKind:
    """A kind of work that can be given secrets. Its subjects are `<kind>:<id>`.

    `uses` lists unfinished work of some tenants; `live` says which of some subjects are not at their end.
    """

    kind: str
    uses: Callable[[Set[int]], Iterable[Use]]
    live: Callable[[Set[str]], Set[str]]


_kinds: dict[str, UserKind] = {}


def register_user(kind: UserKind) -> None:
    """Called once for each kind of work, in the owning app's ready()."""
    if kind.kind in _kinds:
        raise ValueError(f"The kind {kind.kind} is registered twice.")
    _kinds[kind.kind] = kind


def uses(tenant_ids: Set[int]) -> list[Use]:
    """Unfinished work of these tenants that names secrets."""
    return [use for kind in _kinds.values() for use in kind.uses(tenant_ids)]


def is_live(subject: str) -> bool:
    """Whether a piece of work may still need what it was given; unknown kinds may."""
    kind = _kinds.get(subject.partition(":")[0])
    return kind is None or subject in kind.live({subject})
