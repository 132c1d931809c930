"""What upper apps fill in: who follows a limit, what is alive, and what clusters have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from apps.quotas.domain.pool import Pool

LimitListener = Callable[[int, Pool], None]
Subjects = Callable[[], set[str]]
OnNodes = Callable[[set[str]], set[str]]

_listeners: list[LimitListener] = []


def register_limit_listener(listener: LimitListener) -> None:
    """Called in an app's ready(): `listener(tenant_id, pool)` hears of each changed limit, inside the transaction that
    changes it. It leaves a due row and a wake behind; it makes no call to a cluster."""
    _listeners.append(listener)


def limit_changed(tenant_id: int, pool: Pool) -> None:
    for listener in _listeners:
        listener(tenant_id, pool)


@dataclass(frozen=True)
class LiveKind:
    """Work that takes holds. `live` tells every subject that must have a hold now; `on_nodes` which of some subjects
    have their accelerators, the others only wait for them."""

    live: Subjects
    on_nodes: OnNodes


_live: dict[str, LiveKind] = {}


def register_live(kind: str, live: Subjects, on_nodes: OnNodes | None = None) -> None:
    """Called in an app's ready(), once for each kind of subject (the part before the colon). Without `on_nodes` all of
    them count as used."""
    if kind in _live:
        raise ValueError(f"Live work of kind {kind} is registered twice.")
    _live[kind] = LiveKind(live, on_nodes or set)


def live_kinds() -> Mapping[str, LiveKind]:
    return dict(_live)


@dataclass(frozen=True)
class PoolFigures:
    """What a cluster has of a resource, as last seen. `product` is what people call its accelerators; `whole_free` of
    `nodes` have nothing on them; `silent_since` says that nobody knows more since then."""

    cluster_name: str
    product: str
    total: int
    free: int
    nodes: int
    whole_free: int
    seen_at: datetime | None = None
    silent_since: datetime | None = None


Figures = Callable[[Iterable[Pool]], Mapping[Pool, PoolFigures]]

_figures: list[Figures] = []


def register_figures(figures: Figures) -> None:
    """Called once, by the app that sees clusters, in its ready(). Pools that nobody has seen are left out."""
    _figures[:] = [figures]


def figures_of(pools: Iterable[Pool]) -> Mapping[Pool, PoolFigures]:
    """What clusters have of these pools, as far as it is known."""
    return _figures[0](set(pools)) if _figures else {}
