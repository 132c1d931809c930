"""What the watch saw of pods is on the page before any look at their job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import connection, transaction

from apps.clusters.services import PodSeen
from apps.jobs.models import Job, JobRank
from apps.jobs.services import background
from apps.streams.services import hints
from tests import factories
from tests.factories import World

pytestmark = pytest.mark.django_db

Capture = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def job() -> Job:
    world = World.make()
    return factories.job(world.scientist, world.place)


def rank(job: Job, number: int, phase: str) -> JobRank:
    return JobRank.objects.create(
        job=job, pod_uid=f"u-{number}", pod_name=f"p-{number}", attempt=1, rank=number, phase=phase
    )


def seen(job: Job, number: int, waiting: str = "ImagePullBackOff") -> PodSeen:
    return PodSeen(job.pk, f"u-{number}", "Pending", "node-1", waiting, "no such image", None)


def test_open_pages_are_told_once_of_what_changed(
    job: Job, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Capture
) -> None:
    said: list[str] = []
    monkeypatch.setattr(hints._sender, "post", lambda _field, name: said.append(name))
    ranks = [rank(job, number, "Pending") for number in (0, 1)]
    for _ in range(2):
        with django_capture_on_commit_callbacks(execute=True):
            background.note_pods([seen(job, 0), seen(job, 1)])
    assert said == [job.topic]
    for one in ranks:
        one.refresh_from_db()
        assert (one.node, one.waiting, one.message) == ("node-1", "ImagePullBackOff", "no such image")


def test_a_rank_that_has_ended_stays_so_and_an_unknown_one_is_left_to_the_look(job: Job) -> None:
    for number, phase in enumerate(("Failed", "Succeeded", "Gone")):
        rank(job, number, phase)
    background.note_pods([seen(job, number) for number in range(4)])
    assert list(JobRank.objects.order_by("rank").values_list("phase", "waiting")) == [
        ("Failed", ""), ("Succeeded", ""), ("Gone", ""),
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_a_rank_that_a_look_writes_is_not_waited_for_but_named(job: Job) -> None:
    held, free = rank(job, 0, "Running"), rank(job, 1, "Running")

    def tell() -> set[str]:
        try:
            return background.note_pods([seen(job, 0), seen(job, 1)])
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other, transaction.atomic():
        JobRank.objects.select_for_update().get(pk=held.pk)
        told = other.submit(tell)
        assert told.result(10) == {held.pod_uid}
    for one, waiting in ((held, ""), (free, "ImagePullBackOff")):
        one.refresh_from_db()
        assert one.waiting == waiting
    assert background.note_pods([seen(job, 0)]) == set()
    held.refresh_from_db()
    assert held.waiting == "ImagePullBackOff"
