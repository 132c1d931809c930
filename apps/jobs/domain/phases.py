"""The phases of a job and the moves allowed between them."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    SUBMITTED = "submitted"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in FINAL


class Wanted(StrEnum):
    """What people want of a job; the reconciler brings the cluster there."""

    RUN = "run"
    SUSPEND = "suspend"
    STOP = "stop"


FINAL = frozenset({Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED})
_LIVE = frozenset(Phase) - FINAL
_IN_CLUSTER = _LIVE - {Phase.SUBMITTED}

# Inside the cluster a watcher may see any order (a gang can lose its place, run, restart between two looks), so the
# live phases reach each other; what is forbidden is to go back to "not in the cluster yet", and to leave an end.
ALLOWED: dict[Phase, frozenset[Phase]] = {
    **{phase: (_IN_CLUSTER | FINAL) - {phase} for phase in _LIVE},
    # Told to stop, a job only stops; it may still turn out to have ended by itself first.
    Phase.STOPPING: FINAL,
    **dict.fromkeys(FINAL, frozenset()),
}
