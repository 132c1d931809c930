"""Wanted against seen: which step is taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.domain.lifecycle import Act, RankSeen, Reason, Seen, decide, failure
from apps.jobs.domain.phases import ALLOWED, FINAL, Phase, Wanted

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def rank(number: int, **values: object) -> RankSeen:
    base: dict[str, object] = {
        "rank": number, "attempt": 1, "name": f"p-{number}", "uid": f"u-{number}", "node": "n", "phase": "Running",
        "waiting": "", "message": "", "exit_code": None, "started_at": NOON, "ended_at": None,
    }  # fmt: skip
    return RankSeen(**{**base, **values})  # type: ignore[arg-type]


def seen(phase: str, *ranks: RankSeen, **values: object) -> Seen:
    return Seen("uid", phase, **{"retries": 0, "ranks": ranks, **values})  # type: ignore[arg-type]


def step(phase: Phase, wanted: Wanted, what: Seen | None, uid: str = "uid") -> tuple[Phase, Act, str]:
    decision = decide(phase, wanted, what, known_uid=uid, ranks=2)
    return decision.phase, decision.act, decision.reason.code


@pytest.mark.parametrize(
    ("what", "then"),
    [
        (seen(""), (Phase.WAITING, Act.NONE, "waiting.scheduler")),
        (seen("Pending", waiting_for=Reason("waiting.queue-limit")), (Phase.WAITING, Act.NONE, "waiting.queue-limit")),
        (seen("Pending", rank(0, phase="Pending"), rank(1, phase="Pending")), (Phase.STARTING, Act.NONE, "starting.placed")),
        (seen("Pending", rank(0), rank(1, phase="Pending", waiting="ImagePullBackOff")),
         (Phase.STARTING, Act.NONE, "starting.image")),
        (seen("Running", rank(0), rank(1)), (Phase.RUNNING, Act.NONE, "")),
        (seen("Running", rank(0), rank(1, phase="Succeeded")), (Phase.RUNNING, Act.NONE, "")),
        (seen("Restarting", rank(1, phase="Failed", exit_code=3)), (Phase.RESTARTING, Act.NONE, "failed.exit")),
        (seen("Completing"), (Phase.RUNNING, Act.NONE, "")),
        (seen("Completed"), (Phase.SUCCEEDED, Act.NONE, "")),
        (seen("Failed", rank(0, phase="Failed", exit_code=3)), (Phase.FAILED, Act.NONE, "failed.exit")),
        (seen("Failed"), (Phase.FAILED, Act.NONE, "failed.cluster")),
        (seen("Aborted"), (Phase.SUSPENDED, Act.RESUME, "")),
        (seen("SomethingNew"), (Phase.WAITING, Act.NONE, "waiting.scheduler")),
    ],
)  # fmt: skip
def test_a_job_that_shall_run(what: Seen, then: tuple[Phase, Act, str]) -> None:
    assert step(Phase.WAITING, Wanted.RUN, what) == then


def test_ranks_of_a_past_attempt_do_not_make_it_run() -> None:
    old = [rank(0), rank(1)]
    assert step(Phase.RESTARTING, Wanted.RUN, seen("Pending", *old, retries=1))[0] is Phase.WAITING


def test_what_was_never_applied_is_applied_and_what_vanished_is_not() -> None:
    assert step(Phase.SUBMITTED, Wanted.RUN, None, uid="") == (Phase.SUBMITTED, Act.APPLY, "")
    assert step(Phase.RUNNING, Wanted.RUN, None) == (Phase.FAILED, Act.NONE, "failed.disappeared")


def test_a_namesake_is_not_the_job() -> None:
    assert step(Phase.RUNNING, Wanted.RUN, Seen("another", "Running", 0))[2] == "failed.disappeared"


def test_stopping() -> None:
    assert step(Phase.RUNNING, Wanted.STOP, seen("Running", rank(0))) == (Phase.STOPPING, Act.DELETE, "")
    assert step(Phase.STOPPING, Wanted.STOP, seen("Running", deleting=True)) == (Phase.STOPPING, Act.NONE, "")
    assert step(Phase.STOPPING, Wanted.STOP, None) == (Phase.STOPPED, Act.NONE, "")
    assert step(Phase.SUBMITTED, Wanted.STOP, None, uid="") == (Phase.STOPPED, Act.NONE, "")
    assert step(Phase.RUNNING, Wanted.STOP, seen("Completed"))[0] is Phase.SUCCEEDED


def test_a_stopped_job_that_a_slow_worker_revived_is_taken_away_again() -> None:
    assert step(Phase.STOPPED, Wanted.STOP, seen("Running")) == (Phase.STOPPED, Act.DELETE, "")
    assert step(Phase.SUCCEEDED, Wanted.RUN, seen("Completed")) == (Phase.SUCCEEDED, Act.NONE, "")


def test_suspending() -> None:
    assert step(Phase.RUNNING, Wanted.SUSPEND, seen("Running", rank(0))) == (Phase.SUSPENDING, Act.ABORT, "")
    assert step(Phase.SUSPENDING, Wanted.SUSPEND, seen("Aborting")) == (Phase.SUSPENDING, Act.NONE, "")
    assert step(Phase.SUSPENDING, Wanted.SUSPEND, seen("Aborted")) == (Phase.SUSPENDED, Act.NONE, "")
    assert step(Phase.SUSPENDING, Wanted.SUSPEND, seen("Completed"))[0] is Phase.SUCCEEDED


def test_the_first_rank_to_fail_is_the_cause_and_those_told_to_end_are_not() -> None:
    ranks = [
        rank(0, phase="Failed", exit_code=143, ended_at=NOON),
        rank(1, phase="Failed", exit_code=3, ended_at=NOON + timedelta(seconds=2)),
        rank(2, phase="Failed", exit_code=1, ended_at=NOON + timedelta(seconds=9)),
    ]
    assert failure(ranks).params == {"rank": 1, "code": 3, "node": "n"}


def test_of_ranks_that_ended_within_one_second_the_killed_one_is_the_cause() -> None:
    missed = rank(0, phase="Failed", exit_code=1, ended_at=NOON)
    killed = rank(1, phase="Failed", exit_code=137, ended_at=NOON)
    assert failure([missed, killed]).params["rank"] == 1


def test_ends_are_for_good_and_nothing_goes_back_to_submitted() -> None:
    assert all(ALLOWED[phase] == frozenset() for phase in FINAL)
    assert not any(Phase.SUBMITTED in targets for targets in ALLOWED.values())
    assert ALLOWED.keys() == set(Phase)


phases = st.sampled_from(["", "Pending", "Running", "Restarting", "Completing", "Completed", "Aborting", "Aborted",
                          "Failed", "Terminating", "Terminated", "Unheard"])  # fmt: skip
ranks = st.lists(
    st.builds(rank, st.integers(0, 3), phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Odd"]),
              node=st.sampled_from(["", "n"]), attempt=st.integers(1, 2), deleting=st.booleans()), max_size=4,
)  # fmt: skip


@given(st.sampled_from(list(Phase)), st.sampled_from(list(Wanted)), phases, ranks, st.booleans())
def test_every_decision_is_a_move_the_table_allows(
    phase: Phase, wanted: Wanted, cluster: str, pods: list[RankSeen], deleting: bool
) -> None:
    if phase is Phase.STOPPING and wanted is not Wanted.STOP:
        return  # nobody is ever un-stopped
    decision = decide(phase, wanted, seen(cluster, *pods, deleting=deleting), known_uid="uid", ranks=2)
    assert decision.phase is phase or decision.phase in ALLOWED[phase]


@given(phases, ranks, st.booleans())
def test_jupyterhub_2043_what_was_stored_never_outweighs_what_is_seen(
    phase: str, pods: list[RankSeen], there: bool
) -> None:
    """jupyterhub/jupyterhub#2043: after a restart the hub believed its own rows, and said that pods ran which were gone
    and that none were there which ran."""
    what = seen(phase, *pods) if there else None
    live = [Phase.WAITING, Phase.STARTING, Phase.RUNNING, Phase.RESTARTING]
    assert len({step(stored, Wanted.RUN, what) for stored in live}) == 1
    if what is None:
        assert step(Phase.RUNNING, Wanted.RUN, None)[2] == "failed.disappeared"
