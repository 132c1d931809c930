"""Who may follow what: filled by the app that owns a kind of topic."""

from __future__ import annotations

from collections.abc import Callable

from apps.accounts.types import Actor
from apps.streams.domain.topics import parse_topic

Authorise = Callable[[Actor, str], bool]
"""Whether the actor may follow the topic with this id (the part after the dot)."""

Tenant = Callable[[str], int | None]
"""The tenant whose room for logs the topic with this id takes."""

_kinds: dict[str, Authorise] = {}
_tenants: dict[str, Tenant] = {}


def register_topic(kind: str, authorise: Authorise, tenant: Tenant | None = None) -> None:
    """Say who may follow topics `kind.…`, and whose their log is. Called once, in the owning app's ready()."""
    if kind in _kinds:
        raise ValueError(f"The topic kind {kind} is registered twice.")
    _kinds[kind] = authorise
    if tenant is not None:
        _tenants[kind] = tenant


def topic_kinds() -> frozenset[str]:
    return frozenset(_kinds)


def may_follow(actor: Actor, topic: str) -> bool:
    """False as well for what is no topic, or is of a kind that nobody registered."""
    parsed = parse_topic(topic)
    authorise = _kinds.get(parsed[0]) if parsed else None
    return bool(parsed and authorise and authorise(actor, parsed[1]))


def tenant_of(topic: str) -> int | None:
    """Whose log it is; None for one of nobody's."""
    kind, name = parse_topic(topic) or ("", "")
    return _tenants[kind](name) if kind in _tenants else None
