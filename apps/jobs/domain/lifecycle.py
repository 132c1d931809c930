"""Wanted against seen: from what the cluster shows of a job, the phase it is in and the one step to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from apps.jobs.domain.phases import Phase, Wanted


class Act(StrEnum):
    NONE = "none"
    APPLY = "apply"
    DELETE = "delete"
    ABORT = "abort"
    RESUME = "resume"


@dataclass(frozen=True)
class Reason:
    """Why a job is where it is: a code for `services.messages`, with operands."""

    code: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RankSeen:
    """One pod of the job. `phase` is the pod's, or Unknown; `waiting` is a container's reason such as
    ImagePullBackOff; times are None until they happen."""

    rank: int
    attempt: int
    name: str
    uid: str
    node: str
    phase: str
    waiting: str
    message: str
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime | None
    deleting: bool = False
    end_reason: str = ""

    @property
    def is_running(self) -> bool:
        return self.phase == "Running" and not self.deleting


@dataclass(frozen=True)
class Seen:
    """The cluster's side of a job. `phase` is the Volcano Job's ("" while it has none), `retries` its retryCount,
    `waiting_for` what its PodGroup or events say while it has no place."""

    uid: str
    phase: str
    retries: int
    ranks: tuple[RankSeen, ...] = ()
    waiting_for: Reason = Reason("waiting.scheduler")
    deleting: bool = False


@dataclass(frozen=True)
class Decision:
    phase: Phase
    act: Act = Act.NONE
    reason: Reason = Reason()


def decide(phase: Phase, wanted: Wanted, seen: Seen | None, *, known_uid: str, ranks: int) -> Decision:
    """The one step to take. `seen` is None when the cluster knows no such object; `known_uid` is "" before the first
    apply succeeded. `ranks` is the size of the gang."""
    if phase.is_final:
        # A slow worker can apply once more after the stop: whatever is found then is taken away again.
        revived = phase is Phase.STOPPED and seen is not None and not seen.deleting
        return Decision(phase, Act.DELETE if revived else Act.NONE)
    if wanted is Wanted.STOP:
        return _stop(seen)
    if seen is None:
        if known_uid:
            return Decision(Phase.FAILED, reason=Reason("failed.disappeared"))
        return Decision(Phase.SUBMITTED, Act.APPLY)
    if seen.deleting or (known_uid and seen.uid != known_uid):
        return Decision(Phase.FAILED, reason=Reason("failed.disappeared"))
    if wanted is Wanted.SUSPEND and seen.phase not in _ENDED:
        return _suspend(seen)
    return _run(seen, ranks)


_ENDED = frozenset({"Completed", "Failed", "Terminated"})


def _stop(seen: Seen | None) -> Decision:
    if seen is None:
        return Decision(Phase.STOPPED)
    if seen.phase == "Completed":
        return Decision(Phase.SUCCEEDED)
    return Decision(Phase.STOPPING, Act.NONE if seen.deleting else Act.DELETE)


def _suspend(seen: Seen) -> Decision:
    if seen.phase == "Aborted":
        return Decision(Phase.SUSPENDED)
    return Decision(Phase.SUSPENDING, Act.NONE if seen.phase == "Aborting" else Act.ABORT)


def _run(seen: Seen, ranks: int) -> Decision:
    current = [rank for rank in seen.ranks if rank.attempt == seen.retries + 1]
    match seen.phase:
        case "Completed" | "Completing":
            # The last pods of an ending job are being cleared away: it has ended only when Volcano says so.
            return Decision(Phase.SUCCEEDED if seen.phase == "Completed" else Phase.RUNNING)
        case "Failed" | "Terminated" | "Terminating":
            return Decision(Phase.FAILED, reason=failure(seen.ranks))
        case "Aborted":
            return Decision(Phase.SUSPENDED, Act.RESUME)
        case "Aborting":
            return Decision(Phase.SUSPENDING)
        case "Restarting":
            return Decision(Phase.RESTARTING, reason=failure(seen.ranks))
        case _:
            return _placing(seen, current, ranks)


def _placing(seen: Seen, current: list[RankSeen], ranks: int) -> Decision:
    if sum(rank.is_running for rank in current) >= ranks:
        return Decision(Phase.RUNNING)
    ended = [rank for rank in current if rank.phase in ("Succeeded", "Failed")]
    if seen.phase == "Running" and len(ended) + sum(rank.is_running for rank in current) >= ranks:
        return Decision(Phase.RUNNING)
    if any(rank.node for rank in current):
        return Decision(Phase.STARTING, reason=_starting(current, ranks))
    return Decision(Phase.WAITING, reason=seen.waiting_for)


_PULL_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def _starting(current: list[RankSeen], ranks: int) -> Reason:
    placed = sum(bool(rank.node) and not rank.deleting for rank in current)
    for rank in current:
        if rank.waiting in _PULL_FAILURES:
            return Reason("starting.image", {"rank": rank.rank, "text": rank.message})
    if placed < ranks:
        return Reason("starting.stranded", {"placed": placed, "ranks": ranks})
    for rank in current:
        if rank.waiting:
            return Reason("starting.containers", {"rank": rank.rank, "text": rank.message or rank.waiting})
    return Reason("starting.placed")


class RankEnd(Protocol):
    """What `failure` reads of a rank, as it is seen now or was kept when it ended."""

    @property
    def rank(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def ended_at(self) -> datetime | None: ...


UNEXPLAINED = "failed.cluster"
"""No rank has told an exit code, or not yet."""


def failure(ranks: Iterable[RankEnd]) -> Reason:
    """The first rank that ended badly in the newest attempt that has one: when gangs die, the others only follow."""
    bad = [rank for rank in ranks if rank.phase == "Failed" and rank.exit_code not in (None, 0)]
    if not bad:
        return Reason(UNEXPLAINED)
    newest = max(rank.attempt for rank in bad)
    first = min((rank for rank in bad if rank.attempt == newest), key=_as_cause)
    return Reason("failed.exit", {"rank": first.rank, "code": first.exit_code or 0, "node": first.node})


def _as_cause(rank: RankEnd) -> tuple[Any, ...]:
    """Likely causes first. A rank that was told to end (143) is a consequence. Clusters know only the second of an end;
    within it, who was killed by a signal came before who missed them."""
    code = rank.exit_code or 0
    return code == 143, rank.ended_at is None, rank.ended_at or 0, code <= 128, rank.rank
