"""Causes of a failure, from log lines and ranks' ends to words."""

from __future__ import annotations

import json
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from apps.jobs.domain import failing as domain
from apps.jobs.domain.failing import End, Line, classed
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobRank
from apps.jobs.services import failing
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.pages import browser

CASE = Path(__file__).parents[1] / "cases" / "logs" / "failure_causes.log"


def lines(*texts: str, rank: int = 0) -> list[Line]:
    return [Line(number, rank, text) for number, text in enumerate(texts)]


def codes(found: list[domain.Cause]) -> list[str]:
    return [cause.code for cause in found]


def test_the_recorded_failures_are_found_each_before_what_follows_from_it() -> None:
    found = classed(lines(*CASE.read_text().splitlines()), [])
    assert codes(found) == [
        "gpu_xid", "disk_full", "gpu_out_of_memory", "cuda_error", "ssh_permission_denied", "nccl_timeout",
        "worker_failed",
    ]  # fmt: skip
    assert found[0].xid == 79


def test_a_rank_that_was_killed_for_its_memory_is_told_by_its_end_alone() -> None:
    ends = [End(0, "gpu-0001", 143, ""), End(1, "gpu-0002", 137, "OOMKilled")]
    (cause,) = classed([], ends)
    assert (cause.code, cause.rank, cause.node) == ("memory", 1, "gpu-0002")
    assert codes(classed([], [End(0, "", 137, "")])) == ["killed"]
    assert codes(classed([], [End(0, "", 127, "")])) == ["not_found"]
    assert classed([], [End(0, "", 1, ""), End(1, "", 143, "")]) == []


def test_a_cause_that_many_ranks_tell_is_one_with_where_it_was_first() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    told = [Line(1, 3, text), Line(2, 5, text), Line(3, 5, "torch.distributed.elastic: ChildFailedError:")]
    found = classed(told, [End(3, "gpu-0001", 1, ""), End(5, "gpu-0002", 1, "")])
    assert codes(found) == ["gpu_out_of_memory", "worker_failed"]
    assert (found[0].rank, found[0].node, found[0].count) == (3, "gpu-0001", 2)


def test_an_overflow_is_no_cause_and_neither_is_talk_of_one() -> None:
    assert classed(lines("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536"), []) == []
    assert classed(lines("We had no module missing and killed nobody"), []) == []


def test_every_cause_has_words() -> None:
    assert failing.WORDS.keys() | {"gpu_xid"} == set(domain._ORDER)


@pytest.fixture
def failed(world: World) -> Job:
    now = timezone.now()
    job = factories.job(world.scientist, world.place, phase=Phase.FAILED, ended_at=now, running_at=now, attempt=2)
    JobRank.objects.create(
        job=job, pod_uid=f"u-{job.pk}", pod_name="p", attempt=2, rank=0, node="gpu-0001", phase="Failed", exit_code=1
    )
    for attempt, text in ((1, "ModuleNotFoundError: No module named 'early'"), (2, "CUDA out of memory. <b>2 GiB</b>")):
        line = streams.LogLine(time.time_ns(), "ERROR", 0, 7, text)
        streams.append(job.topic, streams.LogFrame(streams.Source(0, attempt, "p"), [line]))
    return job


def test_page_rest_and_command_tell_the_same_of_the_last_attempt(world: World, failed: Job) -> None:
    client, out = browser(world.scientist), StringIO()
    page = client.get(reverse("jobs:detail", args=[failed.pk])).content.decode()
    assert "A GPU ran out of memory." in page
    assert "rank 0 on gpu-0001" in page
    assert "Make the batch per rank smaller" in page
    assert "CUDA out of memory. &lt;b&gt;2 GiB" in page
    assert "early" not in page, "what an earlier attempt said is no cause of this end"
    told: list[dict[str, Any]] = client.get(reverse("api:job-causes", args=[failed.pk])).json()
    assert [one["code"] for one in told] == ["gpu_out_of_memory"]
    call_command("causes", failed.pk, "--as", world.scientist.sub, "--json", stdout=out)
    assert json.loads(out.getvalue()) == told


def test_a_job_that_has_not_failed_has_no_causes(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    assert failing.causes_of(job) == []
