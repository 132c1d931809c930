"""What the cluster says of a job's pods: kept once, told in words, and in bounds for a thousand of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.domain import Role
from apps.clusters.services import PodEventSeen
from apps.jobs.domain.podevents import FEW, PodEvent, code_of, end_reason, together
from apps.jobs.models import Job, JobEvent, JobRank
from apps.jobs.services import podevents
from apps.jobs.services.failing import causes_of
from apps.jobs.services.incidents import incidents_of, moments_of
from apps.jobs.services.moments import LANES
from tests import factories
from tests.factories import World
from tests.pages import browser

THEN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "message", "is_warning", "code"),
    [
        ("Failed", 'Failed to pull image "x/y:1": rpc error: code = NotFound', True, "image"),
        ("Failed", "Error: ErrImagePull", True, "image"),
        ("Failed", "Error: ErrImageNeverPull", True, "image"),
        ("Failed", "Error: InvalidImageName", True, "image-name"),
        ("Failed", "Error: failed to start containerd task: exec: no such file", True, "start"),
        ("BackOff", 'Back-off pulling image "x/y:1"', False, "image-wait"),
        ("BackOff", "Back-off restarting failed container main in pod p", True, "crash-wait"),
        ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", True, "readiness"),
        ("Unhealthy", "Liveness probe failed: timeout", True, "liveness"),
        ("Killing", "Container main failed liveness probe, will be restarted", False, "liveness-kill"),
        ("Killing", "Stopping container main", False, ""),
        ("FailedScheduling", "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.", True, "no-place"),
        ("FailedMount", "MountVolume.SetUp failed", True, "mount"),
        ("OutOfnvidia.com/gpu", "Node didn't have enough resource", True, "kubelet-refused"),
        ("UnexpectedAdmissionError", "Allocate failed", True, "admission"),
        ("Pulled", "Container image already present", False, ""),
        ("NobodyKnows", "this", True, "other"),
        ("NobodyKnows", "this", False, ""),
    ],
)
def test_an_event_is_about_one_thing(reason: str, message: str, is_warning: bool, code: str) -> None:
    found = code_of(reason, message, is_warning=is_warning)
    assert found == {"liveness-kill": "probe-kill"}.get(code, code)
    assert not found or found == "other" or found in podevents.WORDS


@pytest.mark.parametrize(
    ("status", "disruption", "container", "told"),
    [
        ("", "", "OOMKilled", "OOMKilled"),
        ("Evicted", "TerminationByKubelet", "Error", "Evicted"),
        ("", "PreemptionByScheduler", "Error", "PreemptionByScheduler"),
        ("", "", "Error", ""),
        ("", "", "StartError", "StartError"),
    ],
)
def test_why_a_pod_ended_is_what_tells_most(status: str, disruption: str, container: str, told: str) -> None:
    assert end_reason(status, disruption, container) == told


def said(rank: int | None, minutes: float = 0, lasts: float = 0, code: str = "image", count: int = 1) -> PodEvent:
    first = THEN + timedelta(minutes=minutes)
    uid = f"{code}-{rank}-{minutes}"
    return PodEvent(uid, code, "R", "words", count, first, first + timedelta(minutes=lasts), "p", 1, rank, f"n-{rank}")


def test_the_same_of_many_ranks_is_told_once_and_of_few_one_by_one() -> None:
    many = together([said(rank, rank / 100, 2, count=3) for rank in range(FEW + 1)])
    assert [(told.ranks, told.count) for told in many] == [(tuple(range(FEW + 1)), 3 * (FEW + 1))]
    assert (many[0].first, many[0].at) == (THEN, THEN + timedelta(minutes=2 + FEW / 100))
    few = together([said(rank) for rank in range(FEW)])
    assert [told.ranks for told in few] == [(rank,) for rank in range(FEW)]


def test_what_comes_much_later_or_in_another_attempt_is_told_anew() -> None:
    later = together([said(0), said(0, 14), said(0, 31)])
    assert [(told.first, told.count) for told in later] == [(THEN, 2), (THEN + timedelta(minutes=31), 1)]
    assert len(together([said(0), replace(said(0, 1), attempt=2)])) == 2


def test_a_wait_that_passes_at_once_is_not_told() -> None:
    """Volcano warns of each gang that it has no place, also of one that it places in the same second."""
    assert together([said(None, 0, 0.1, "no-place"), said(0, 0, 0.3, "no-place")]) == []
    assert len(together([said(None, 0, 2, "no-place")])) == 1


_events = st.lists(
    st.builds(
        said,
        st.one_of(st.none(), st.integers(0, 20)),
        st.integers(0, 100),
        st.integers(0, 30),
        st.sampled_from(["image", "mount", "other"]),
        st.integers(1, 50),
    ),
    max_size=60,
    unique_by=lambda event: event.uid,
)


@given(_events)
def test_nothing_that_is_told_together_is_lost_or_told_twice(events: list[PodEvent]) -> None:
    told = together(events)
    assert sum(one.count for one in told) == sum(event.count for event in events)
    assert {rank for one in told for rank in one.ranks} == {e.rank for e in events if e.rank is not None}
    assert [one.first for one in told] == sorted(one.first for one in told)
    assert all(one.first <= one.at for one in told)


def seen(job: Job, number: int, *, uid: str = "", reason: str = "Failed", count: int = 1) -> PodEventSeen:
    first = timezone.now() - timedelta(minutes=5)
    words = 'Failed to pull image "registry.internal/t/x:1": not found'
    return PodEventSeen(
        job.pk, uid or f"e-{number}", reason, words, True, count, first, first + timedelta(seconds=count), f"p-{number}",
        1, number, "gpu-1",
    )  # fmt: skip


@pytest.fixture
def job(world: World) -> Job:
    return factories.job(world.scientist, world.place)


def test_an_event_is_kept_as_it_was_told_last_however_often_it_comes(job: Job) -> None:
    for count in (1, 4, 4):
        podevents.note_events([seen(job, 0, count=count), replace(seen(job, 1), reason="Pulled", is_warning=False)])
    row = JobEvent.objects.get()
    assert (row.count, row.rank, row.code, row.node) == (4, 0, "image", "gpu-1")
    (moment,) = [one for one in incidents_of(job).moments if one.lane == "pods"]  # type: ignore[union-attr]
    assert (moment.text, moment.count) == ("Rank 0 on gpu-1: Its image could not be pulled", 4)
    assert moment.until == row.at
    assert moment.raw.startswith("Failed to pull image")


def test_words_that_may_name_the_work_of_others_are_not_kept(job: Job) -> None:
    rival = "Preempted by pod rival-7f9c on node gpu-1"
    podevents.note_events([replace(seen(job, 0, reason="Preempted"), message=rival)])
    (moment,) = moments_of(job, lane="pods").moments
    assert (moment.raw, moment.tone) == ("", "red")
    assert moment.text == "Rank 0 on gpu-1: It had to make way for other work"


def test_events_of_a_row_that_is_none_of_ours_are_left(job: Job) -> None:
    podevents.note_events([replace(seen(job, 0), row_id="0" * 26)])
    assert not JobEvent.objects.exists()


def test_a_thousand_pods_are_one_moment_and_as_many_queries_as_one(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            moments_of(job)
        return len(caught)

    podevents.note_events([seen(job, 0)])
    one = queries()
    now = timezone.now()
    JobRank.objects.bulk_create(
        JobRank(
            job=job, pod_uid=f"u-{n}", pod_name=f"p-{n}", attempt=1, rank=n, node=f"gpu-{n}", phase="Failed",
            exit_code=137, end_reason="OOMKilled", started_at=now - timedelta(minutes=4), ended_at=now,
        )
        for n in range(1000)
    )  # fmt: skip
    for first in range(0, 1000, 500):
        podevents.note_events([seen(job, n, count=2) for n in range(first, first + 500)])
    assert queries() <= one + 1, "its nodes are asked for"
    told = [moment.text for moment in moments_of(job).moments if moment.lane in ("pods", "ranks")]
    assert sorted(told) == [
        "1000 ranks ended, exit code 137: it used more memory than it may (OOMKilled)",
        "1000 ranks started",
        "1000 ranks: Its image could not be pulled",
    ]
    monkeypatch.setattr(podevents, "KEPT", 300)
    podevents.note_events([seen(job, 1, uid="newest", count=9)])
    assert JobEvent.objects.filter(uid="newest").exists()
    assert JobEvent.objects.count() <= 300


def test_the_rest_endpoint_pages_back_to_the_first_moment(world: World, job: Job) -> None:
    podevents.note_events([seen(job, n, uid=f"{reason}-{n}", reason=reason) for n in range(5) for reason in _KINDS])
    client, address = browser(world.people[Role.VIEWER]), reverse("api:job-timeline", args=[job.pk])
    whole = client.get(address, {"limit": 500}).json()
    assert whole["next"] is None
    assert {moment["lane"] for moment in whole["results"]} <= set(LANES)
    found, before = [], ""
    while True:
        page = client.get(address, {"limit": 4, **({"before": before} if before else {})}).json()
        found += page["results"]
        if not page["next"]:
            break
        before = page["next"]
    assert found == whole["results"]
    assert len(found) > 20
    pods = client.get(address, {"lane": "pods", "limit": 500}).json()["results"]
    assert len(pods) == 5 * len(_KINDS)
    for query in ({"lane": "x"}, {"limit": "0"}, {"limit": "501"}, {"limit": "x"}, {"before": "x"}):
        assert client.get(address, query).status_code == 400, query


_KINDS = ("Failed", "FailedMount", "Evicted", "NobodyKnows")


def test_a_warning_without_words_of_its_own_is_told_under_its_reason(job: Job) -> None:
    podevents.note_events([seen(job, 3, reason="NobodyKnows")])
    (moment,) = moments_of(job, lane="pods").moments
    assert moment.text == "Rank 3 on gpu-1: The cluster warns of NobodyKnows"


def test_a_rank_that_was_killed_for_memory_is_a_cause_by_its_reason(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase="failed", ended_at=timezone.now())
    JobRank.objects.create(
        job=job, pod_uid="u", pod_name="p", attempt=1, rank=0, phase="Failed", exit_code=137, end_reason="OOMKilled"
    )
    assert [told.cause.code for told in causes_of(job)] == ["memory"]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_tab_tells_it_with_the_clusters_own_words_behind(world: World, job: Job, language: str) -> None:
    podevents.note_events([seen(job, 0, count=12)])
    client = browser(world.people[Role.VIEWER])
    with translation.override(language):
        page = client.get(
            reverse("jobs:detail", args=[job.pk]), {"tab": "incidents"}, headers={"accept-language": language}
        )
    text = page.content.decode()
    assert "<summary>" in text
    assert "registry.internal/t/x:1" in text
    if language == "en":
        assert "12 times, last at" in text
