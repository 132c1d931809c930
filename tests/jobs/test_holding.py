"""What jobs hold of their tenant's quota, from submit to end, and what stands in the ledger then."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.clusters.services import PodEnd
from apps.jobs import moves, services
from apps.jobs.domain.lifecycle import Reason
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobRank
from apps.jobs.services import background, holding
from apps.quotas import services as quotas
from apps.quotas.models import Allowance, Hold, LedgerEntry
from tests.factories import DOCUMENT, World
from tests.pages import browser

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def submit(world: World, **changes: Any) -> Job:
    document = {**DOCUMENT, **changes}
    return services.submit(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, document=document)


def held(world: World) -> int:
    return quotas.use(world.nlp.pk, world.place.pool).held


def move(job: Job, *phases: Phase) -> None:
    for phase in phases:
        moves.move(job, phase, moves.Facts(job.attempt, Reason("")))


def agree() -> None:
    """Live holds are live work."""
    assert [one for one in quotas.check() if one.about.startswith(("job:", "tenant:"))] == []


@pytest.mark.parametrize("end", [Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED])
def test_a_job_holds_from_submit_to_its_end_whatever_ended_it(world: World, end: Phase) -> None:
    job = submit(world, ranks=3, gpus_per_rank=2, global_batch=24)
    assert held(world) == 6
    move(job, Phase.WAITING, Phase.RUNNING)
    agree()
    assert (held(world), quotas.use(world.nlp.pk, world.place.pool).used) == (6, 6)
    move(job, end)
    assert held(world) == 0
    agree()


def test_what_the_quota_does_not_leave_is_refused_with_what_is_left(world: World) -> None:
    submit(world, ranks=2, gpus_per_rank=7)
    with pytest.raises(services.InvalidDocument) as caught:
        submit(world, ranks=3, global_batch=24)
    (problem,) = caught.value.problems
    assert (problem.field, problem.code, dict(problem.params)) == (
        "ranks",
        "no-room",
        {"gpus": 3, "left": 2, "limit": 16},
    )
    assert "3 GPUs are more than the 2 left" in services.problem_text(problem)
    assert (held(world), Job.objects.for_system().count()) == (14, 1)
    answer = browser(world.scientist).post(
        reverse("api:jobs"),
        {"tenant": "nlp", "document": {**DOCUMENT, "ranks": 3, "global_batch": 24}},
        "application/json",
    )
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["ranks"])


@pytest.mark.django_db(transaction=True)
def test_twenty_submits_at_one_below_the_limit_let_one_in() -> None:
    world = World.make()
    Allowance.objects.for_system().filter(tenant=world.nlp).update(base=2)
    refused: list[services.InvalidDocument] = []

    def press() -> None:
        try:
            submit(world, ranks=2)
        except services.InvalidDocument as invalid:
            refused.append(invalid)
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refused), Job.objects.for_system().count(), held(world)) == (19, 1, 2)
    agree()


def test_a_suspended_job_leaves_its_place_to_others_and_needs_room_to_go_on(world: World) -> None:
    actor, job = world.actor(Role.SCIENTIST), submit(world, ranks=2, gpus_per_rank=5)
    move(job, Phase.WAITING, Phase.RUNNING)
    services.suspend(actor, job=job)
    move(job, Phase.SUSPENDING)
    assert held(world) == 10
    move(job, Phase.SUSPENDED)
    assert held(world) == 0
    agree()
    other = submit(world, ranks=2, gpus_per_rank=4)
    with pytest.raises(quotas.NoRoom):
        services.resume(actor, job=job)
    job.refresh_from_db()
    assert (job.wanted, held(world)) == ("suspend", 8)
    client = browser(world.scientist)
    assert client.post(reverse("api:job-resume", args=[job.pk])).status_code == 409
    said = client.post(reverse("jobs:resume", args=[job.pk]), follow=True).content.decode()
    assert "10 GPUs are more than the 8 left" in said
    move(other, Phase.STOPPED)
    services.resume(actor, job=job)
    assert held(world) == 10
    agree()


def test_a_job_resumed_before_it_was_off_its_nodes_keeps_its_hold(world: World) -> None:
    actor, job = world.actor(Role.SCIENTIST), submit(world)
    move(job, Phase.WAITING, Phase.RUNNING)
    services.suspend(actor, job=job)
    move(job, Phase.SUSPENDING)
    services.resume(actor, job=job)
    move(job, Phase.SUSPENDED)
    assert held(world) == 2
    agree()


@pytest.mark.parametrize("resumed", [True, False])
def test_a_suspended_job_that_is_stopped_holds_nothing(world: World, resumed: bool) -> None:
    actor, job = world.actor(Role.SCIENTIST), submit(world)
    move(job, Phase.WAITING, Phase.RUNNING)
    services.suspend(actor, job=job)
    move(job, Phase.SUSPENDING, Phase.SUSPENDED)
    if resumed:
        services.resume(actor, job=job)
    services.stop(actor, job=job)
    assert held(world) == 0
    agree()
    move(job, Phase.STOPPING)
    agree()
    move(job, Phase.STOPPED)
    agree()


def rank(job: Job, uid: str, seconds: float | None, attempt: int = 1, **values: Any) -> JobRank:
    ended_at = None if seconds is None else NOON + timedelta(seconds=seconds)
    phase = "Running" if seconds is None else "Succeeded"
    return JobRank.objects.create(
        job=job, pod_uid=uid, pod_name=uid, attempt=attempt, rank=0,
        **{"phase": phase, "started_at": NOON, "ended_at": ended_at, **values},
    )  # fmt: skip


def test_every_pod_of_every_attempt_is_booked_once_from_start_to_end(world: World) -> None:
    job = submit(world, ranks=2, gpus_per_rank=4)
    rank(job, "a-0", 100)
    rank(job, "a-1", 90, phase="Failed", exit_code=1)
    rank(job, "b-0", 50, attempt=2)
    rank(job, "never-started", None, attempt=2, phase="Pending", started_at=None)
    move(job, Phase.WAITING, Phase.FAILED)
    moves.book(job)
    assert quotas.booked(job.subject) == 4 * (100 + 90 + 50)
    assert LedgerEntry.objects.count() == 3


def test_a_pod_whose_end_is_told_late_is_booked_by_its_own_word(world: World) -> None:
    """A stopped job's pods go at once; the watch tells later when they really ended."""
    job = submit(world)
    rank(job, "seen", None)
    move(job, Phase.WAITING, Phase.STOPPED)
    assert JobRank.objects.get(pod_uid="seen").phase == "Gone"
    assert quotas.booked(job.subject) > 0
    for uid in ("seen", "never-seen"):
        end = PodEnd(job.pk, uid, uid, 1, 0, "n", 143, NOON + timedelta(seconds=30), NOON)
        background.note_pod_end(end)
        background.note_pod_end(end)
    assert (quotas.booked(job.subject), LedgerEntry.objects.count()) == (60, 2)


def test_a_hold_that_a_crash_left_behind_is_found(world: World) -> None:
    job = submit(world)
    Job.objects.for_system().filter(pk=job.pk).update(phase=Phase.SUCCEEDED)
    assert [(one.what, one.about, one.amount) for one in quotas.check()] == [("without-work", job.subject, 2)]
    Hold.objects.all().delete()
    quotas.set_base(Actor.system("test"), world.nlp.pk, world.place.pool, 0)
    assert holding.live_subjects() == set()
