"""Wanted against seen: from what the cluster shows of a deployment, the phase it is in and the one step to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from apps.serving.domain.phases import STARTING, Phase, Wanted

GIVE_UP_AFTER = 3
"""Restarts of a replica before the first was ready: the model does not start, and keeps accelerators from others."""


class Act(StrEnum):
    NONE = "none"
    APPLY = "apply"
    DELETE = "delete"


@dataclass(frozen=True)
class Reason:
    """Why a deployment is where it is: a code for `services.messages`, with operands."""

    code: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplicaSeen:
    """One pod. `stage` is one of `STARTING`, READY, or FAILED where its container ended and waits to be started
    again; `ip` is "" until it has an address, `started_at` until its node has taken it (RFC 3339)."""

    uid: str
    name: str
    node: str
    ip: str
    stage: Phase
    reason: Reason = Reason()
    restarts: int = 0
    started_at: str = ""
    going: bool = False

    @property
    def is_ready(self) -> bool:
        return self.stage is Phase.READY and not self.going and bool(self.ip)


@dataclass(frozen=True)
class Seen:
    """The cluster's side of a deployment. `uid` is "" when it knows no such object; `mark` is the digest of what was
    last applied; replicas that are being deleted count until they are gone."""

    uid: str = ""
    mark: str = ""
    deleting: bool = False
    replicas: tuple[ReplicaSeen, ...] = ()

    @property
    def is_gone(self) -> bool:
        return not self.uid and not self.replicas

    @property
    def ready(self) -> int:
        return sum(replica.is_ready for replica in self.replicas)


@dataclass(frozen=True)
class Wish:
    """What is wanted: `replicas`, and the `mark` of the manifests. `settled` is how many replicas were last ready all
    together, 0 before the first time."""

    wanted: Wanted
    replicas: int
    mark: str
    settled: int


@dataclass(frozen=True)
class Decision:
    phase: Phase
    act: Act = Act.NONE
    reason: Reason = Reason()


def decide(phase: Phase, wish: Wish, seen: Seen) -> Decision:
    """The one step to take."""
    if phase.is_at_rest and (wish.wanted is Wanted.STOP or phase.is_final):
        # A slow worker can apply once more after the end: whatever is found then is taken away again.
        return Decision(phase, _delete(seen))
    if wish.wanted is not Wanted.RUN:
        stopping, ended = (
            (Phase.STOPPING, Phase.STOPPED) if wish.wanted is Wanted.STOP else (Phase.REMOVING, Phase.REMOVED)
        )
        if seen.is_gone and phase is stopping:
            return Decision(ended)
        return Decision(stopping, _delete(seen))
    begins = phase is Phase.STOPPING or phase.is_at_rest
    if seen.deleting:
        return Decision(Phase.ASKING if begins else phase)
    act = Act.APPLY if seen.mark != wish.mark else Act.NONE
    decision = _run(wish, seen, act)
    return Decision(Phase.ASKING, act, decision.reason) if begins else decision


def _delete(seen: Seen) -> Act:
    return Act.DELETE if seen.uid and not seen.deleting else Act.NONE


def _run(wish: Wish, seen: Seen, act: Act) -> Decision:
    there = [replica for replica in seen.replicas if not replica.going]
    numbers = {"ready": seen.ready, "all": wish.replicas}
    if seen.ready >= wish.replicas and len(seen.replicas) <= wish.replicas and act is Act.NONE:
        return Decision(Phase.READY)
    if wish.settled:
        if wish.settled != wish.replicas or len(there) > wish.replicas:
            return Decision(Phase.SCALING, act, Reason("scaling.replicas", numbers))
        return Decision(Phase.DEGRADED, act, _worst(there, Reason("degraded.replicas", numbers)))
    if any(replica.restarts >= GIVE_UP_AFTER for replica in there) and not seen.ready:
        return Decision(Phase.FAILED, reason=_crash(there))
    if act is Act.APPLY and not seen.uid:
        return Decision(Phase.ASKING, act, Reason("asking.cluster-takes"))
    if not there:
        return Decision(Phase.ASKING, act, Reason("asking.scheduler"))
    first = max(there, key=lambda replica: _RANK.get(replica.stage, 0))
    if first.stage is Phase.READY:
        return Decision(Phase.WARMING, act, Reason("warming.others", numbers))
    stage = first.stage if first.stage in STARTING else Phase.LOADING
    return Decision(stage, act, first.reason)


_RANK = {stage: index for index, stage in enumerate((Phase.FAILED, *STARTING, Phase.READY))}


def _worst(there: list[ReplicaSeen], otherwise: Reason) -> Reason:
    """What ails a replica, with the numbers of all; the numbers alone where nothing is known."""
    ill = next((replica for replica in there if replica.stage is Phase.FAILED), None)
    return Reason("degraded.crash", {**otherwise.params, **ill.reason.params}) if ill else otherwise


def _crash(there: list[ReplicaSeen]) -> Reason:
    worst = max(there, key=lambda replica: replica.restarts)
    return Reason("failed.crash", {"restarts": worst.restarts, **worst.reason.params})
