"""The phases of a deployment and the moves allowed between them."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    ASKING = "asking"
    PULLING = "pulling"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DEGRADED = "degraded"
    SCALING = "scaling"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REMOVING = "removing"
    REMOVED = "removed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self is Phase.REMOVED

    @property
    def is_at_rest(self) -> bool:
        """Nothing of it is to be in the cluster, and it holds no quota once that is so."""
        return self in AT_REST


class Wanted(StrEnum):
    """What people want of a deployment; the reconciler brings the cluster there."""

    RUN = "run"
    STOP = "stop"
    REMOVE = "remove"


STARTING = (Phase.ASKING, Phase.PULLING, Phase.LOADING, Phase.WARMING)
"""The way to the first ready replica, in order."""
SERVING = frozenset({Phase.READY, Phase.DEGRADED, Phase.SCALING})
AT_REST = frozenset({Phase.STOPPED, Phase.FAILED, Phase.REMOVED})
ALIVE = (frozenset(STARTING) | SERVING) | {Phase.STOPPING, Phase.REMOVING}
"""It has, or may have, something in the cluster."""

# Inside the cluster a look may find any order: a replica can be evicted while it loads, or be ready between two looks.
_UP = frozenset(STARTING) | SERVING
ALLOWED: dict[Phase, frozenset[Phase]] = {
    **{phase: (_UP | {Phase.STOPPING, Phase.REMOVING, Phase.FAILED}) - {phase} for phase in _UP},
    Phase.STOPPING: frozenset({Phase.STOPPED, Phase.ASKING, Phase.REMOVING}),
    Phase.STOPPED: frozenset({Phase.ASKING, Phase.REMOVING}),
    Phase.FAILED: frozenset({Phase.ASKING, Phase.REMOVING}),
    Phase.REMOVING: frozenset({Phase.REMOVED}),
    Phase.REMOVED: frozenset(),
}
