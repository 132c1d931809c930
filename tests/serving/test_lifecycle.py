"""What is seen of pods, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from apps.serving.domain.lifecycle import Act, Decision, Reason, ReplicaSeen, Seen, Wish, decide
from apps.serving.domain.phases import ALLOWED, Phase, Wanted
from apps.serving.domain.seen import read_replica

P = Phase


def pod(*, node: str = "n1", init: Any = None, main: Any = None, **status: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"phase": "Pending", "podIP": "127.20.0.1", **status}
    if init is not None:
        found["initContainerStatuses"] = [{"name": "fetch", **init}]
    if main is not None:
        found["containerStatuses"] = [{"name": "main", **main}]
    return {"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": node}, "status": found}


RUNS: dict[str, Any] = {"state": {"running": {}}}
WENT_WELL = {"state": {"terminated": {"exitCode": 0}}}
UNPLACED = {"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}


@pytest.mark.parametrize(
    ("seen", "stage", "reason"),
    [
        (pod(node=""), P.ASKING, "asking.scheduler"),
        (pod(node="", conditions=[UNPLACED]), P.ASKING, "asking.unplaced"),
        (pod(), P.PULLING, ""),
        (pod(init={"state": {"waiting": {"reason": "ImagePullBackOff"}}}), P.PULLING, "pulling.image"),
        (pod(init=RUNS), P.LOADING, "loading.files"),
        (pod(init=WENT_WELL, main={"state": {"waiting": {"reason": "PodInitializing"}}}), P.LOADING, "loading.memory"),
        (pod(init=WENT_WELL, main={**RUNS, "started": False}), P.LOADING, "loading.memory"),
        (pod(init=WENT_WELL, main={**RUNS, "started": True, "ready": False}), P.WARMING, ""),
        (pod(init=WENT_WELL, main={**RUNS, "started": True, "ready": True}), P.READY, ""),
        (pod(init={"state": {"waiting": {"reason": "CrashLoopBackOff"}},
                   "lastState": {"terminated": {"exitCode": 1}}}), P.FAILED, "loading.crash"),
    ],
)  # fmt: skip
def test_the_stage_of_a_pod(seen: dict[str, Any], stage: Phase, reason: str) -> None:
    found = read_replica(seen)
    assert (found.stage, found.reason.code) == (stage, reason)


def replica(stage: Phase, number: int = 0, **more: Any) -> ReplicaSeen:
    return ReplicaSeen(f"u{number}", f"p{number}", "n1", "127.20.0.1", stage, **more)


def there(*stages: Phase, mark: str = "m") -> Seen:
    return Seen("uid", mark, replicas=tuple(replica(stage, i) for i, stage in enumerate(stages)))


RUN = Wish(Wanted.RUN, 2, "m", 0)
SETTLED = Wish(Wanted.RUN, 2, "m", 2)


@pytest.mark.parametrize(
    ("phase", "wish", "seen", "to", "act"),
    [
        (P.ASKING, RUN, Seen(), P.ASKING, Act.APPLY),
        (P.ASKING, RUN, there(), P.ASKING, Act.NONE),
        (P.ASKING, RUN, there(P.ASKING, P.LOADING), P.LOADING, Act.NONE),
        (P.LOADING, RUN, there(P.READY, P.LOADING), P.WARMING, Act.NONE),
        (P.WARMING, RUN, there(P.READY, P.READY), P.READY, Act.NONE),
        (P.READY, SETTLED, there(P.READY, P.LOADING), P.DEGRADED, Act.NONE),
        (P.READY, SETTLED, Seen(), P.DEGRADED, Act.APPLY),  # deleted by somebody else: it comes back
        (P.READY, Wish(Wanted.RUN, 3, "m3", 2), there(P.READY, P.READY), P.SCALING, Act.APPLY),
        (P.SCALING, Wish(Wanted.RUN, 1, "m", 2), there(P.READY, P.READY), P.SCALING, Act.NONE),
        (P.SCALING, Wish(Wanted.RUN, 1, "m", 2), there(P.READY), P.READY, Act.NONE),
        (P.READY, Wish(Wanted.STOP, 2, "m", 2), there(P.READY, P.READY), P.STOPPING, Act.DELETE),
        (P.STOPPING, Wish(Wanted.STOP, 2, "m", 2), Seen(replicas=(replica(P.READY, going=True),)), P.STOPPING, Act.NONE),
        (P.STOPPING, Wish(Wanted.STOP, 2, "m", 2), Seen(), P.STOPPED, Act.NONE),
        (P.STOPPED, Wish(Wanted.STOP, 2, "m", 0), there(), P.STOPPED, Act.DELETE),  # a late apply is undone
        (P.STOPPED, RUN, Seen(), P.ASKING, Act.APPLY),
        (P.FAILED, Wish(Wanted.STOP, 2, "m", 0), there(P.FAILED), P.FAILED, Act.DELETE),
        (P.FAILED, Wish(Wanted.REMOVE, 2, "m", 0), Seen(), P.REMOVING, Act.NONE),
        (P.REMOVING, Wish(Wanted.REMOVE, 2, "m", 0), Seen(), P.REMOVED, Act.NONE),
        (P.REMOVED, Wish(Wanted.REMOVE, 2, "m", 0), there(), P.REMOVED, Act.DELETE),
    ],
)  # fmt: skip
def test_one_step_at_a_time(phase: Phase, wish: Wish, seen: Seen, to: Phase, act: Act) -> None:
    decision = decide(phase, wish, seen)
    assert (decision.phase, decision.act) == (to, act)
    assert to is phase or to in ALLOWED[phase]


def test_a_model_that_never_starts_is_given_up_and_one_that_once_served_is_not() -> None:
    crash = Reason("loading.crash", {"code": 1, "text": "no model"})
    ill = Seen("uid", "m", replicas=(replica(P.FAILED, restarts=3, reason=crash),))
    assert decide(P.LOADING, RUN, ill).phase is P.FAILED
    served = decide(P.READY, SETTLED, ill)
    assert (served.phase, served.reason.code, served.reason.params["code"]) == (P.DEGRADED, "degraded.crash", 1)


def test_a_replica_that_ends_serves_no_more() -> None:
    ending = Seen("uid", "m", replicas=(replica(P.READY, 0, going=True), replica(P.READY, 1)))
    assert ending.ready == 1
    assert decide(P.READY, SETTLED, ending) == Decision(
        P.DEGRADED, Act.NONE, Reason("degraded.replicas", {"ready": 1, "all": 2})
    )
