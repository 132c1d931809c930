"""Who uses a version: asked of the apps above, which register how to find out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """Something alive that needs a version: `kind` such as "deployment", its name, its page, whose it is, how it is."""

    version_id: str
    kind: str
    name: str
    url: str
    tenant_id: int
    state: str = ""


Find = Callable[[Collection[str]], Iterable[Use]]
_finders: dict[str, Find] = {}


def register_use(kind: str, find: Find) -> None:
    """Called once for each kind, in the owning app's ready(): `find(version_ids)` tells who uses any of them now."""
    if kind in _finders:
        raise ValueError(f"Uses of the kind {kind} are registered twice.")
    _finders[kind] = find


def uses_of(version_ids: Collection[str]) -> list[Use]:
    """Everything alive that needs one of these versions, whoever's it is."""
    return [use for find in _finders.values() for use in find(version_ids)]
