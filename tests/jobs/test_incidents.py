"""The time line of a job: everything on one axis."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.clusters.domain.capacity import NodeSpace
from apps.clusters.domain.nodes import Problem, SeenNode
from apps.clusters.models import NodeEvent
from apps.clusters.services.queues import NodeEventSeen, note_events
from apps.clusters.services.seen import note_nodes
from apps.jobs import services
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobPhase, JobRank
from apps.jobs.reconcile.losswatch import watch_loss
from apps.jobs.services.incidents import incidents_of
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.pages import browser


@pytest.fixture
def eventful(world: World) -> Job:
    """Ten minutes: a run that broke at the fifth, and one that diverged at the ninth and was suspended by its owner."""
    now = timezone.now()

    def ago(minutes: float) -> object:
        return now - timedelta(minutes=minutes)

    job = factories.job(world.scientist, world.place, document={"watch_actions": ["mark", "quarantine"]}, attempt=2)
    JobPhase.objects.filter(job=job).delete()
    moves = ((10, Phase.SUBMITTED, 1), (9, Phase.RUNNING, 1), (5, Phase.RESTARTING, 2), (4, Phase.RUNNING, 2))
    for minutes, phase, attempt in moves:
        JobPhase.objects.create(job=job, phase=phase, attempt=attempt, at=ago(minutes))
    Job.objects.for_system().filter(pk=job.pk).update(phase=Phase.RUNNING, running_at=ago(9))
    JobRank.objects.create(
        job=job, pod_uid=f"u-{job.pk}", pod_name="p", attempt=1, rank=1, node="gpu-0002", phase="Failed", exit_code=137,
        started_at=ago(9), ended_at=ago(5),
    )  # fmt: skip
    streams.record_points(job.topic, 1, [("loss", n, 3.0 - n / 10, ago(9 - n)) for n in range(4)])
    streams.record_points(job.topic, 1, [("checkpoint", 2, 1.0, ago(7))])
    streams.record_points(
        job.topic, 2, [("loss", 3 + n, value, ago(4 - n)) for n, value in enumerate((2.6, 2.5, math.nan))]
    )
    streams.record_points(job.topic, 2, [("checkpoint", 5, 1.0, ago(1.5))])
    watch_loss(job.pk)
    job = Job.objects.for_system().select_related("loss_watch", "tenant", "placement__cluster").get(pk=job.pk)
    services.suspend(world.actor(Role.SCIENTIST), job=job)
    return job


def test_everything_stands_on_one_axis_in_its_order(eventful: Job) -> None:
    found = incidents_of(eventful)
    assert found is not None
    assert [moment.x for moment in found.moments] == sorted(moment.x for moment in found.moments)
    told = [(moment.lane, moment.tone, moment.text) for moment in found.moments]
    assert ("ranks", "red", "Rank 1 ended on gpu-0002, exit code 137") in told
    assert ("checkpoints", "blue", "Checkpoint of step 2") in told
    assert ("checkpoints", "red", "Checkpoint of step 5, in quarantine") in told
    assert ("loss-watch", "red", "The loss of step 5 is no number (NaN).") in told
    assert told[-1][:2] == ("people", "ink")
    assert told[-1][2].endswith("suspended the job first light")
    broke = next(moment for moment in found.moments if moment.text.startswith("Restarting, attempt 2"))
    assert broke.x == pytest.approx(50, abs=1)


def test_what_befell_a_node_is_told_while_ranks_were_on_it_and_never_in_words_about_others(
    world: World, eventful: Job
) -> None:
    now, cluster = timezone.now(), world.place.cluster
    node = SeenNode(NodeSpace("gpu-0002", "H100", "nvidia.com/gpu", 8, 8, ready=True, schedulable=True), "", {}, [])
    for problem in ("", Problem.SILENT, Problem.CORDONED, ""):
        note_nodes(cluster.pk, [replace(node, problem=problem)])
    other = replace(node, space=replace(node.space, name="gpu-0009"))
    note_nodes(cluster.pk, [node, other])
    note_nodes(cluster.pk, [])
    NodeEvent.objects.filter(cluster=cluster).update(at=now - timedelta(minutes=4.5))
    victim = "Memory cgroup out of memory: killed process of rival-7f9c"
    at = {"at": now - timedelta(minutes=6)}
    note_events(
        cluster.pk,
        [
            NodeEventSeen("gpu-0002", "SystemOOM", victim, True, **at),
            NodeEventSeen(
                "gpu-0002", "NodeNotReady", "status is now: NodeNotReady", True, now - timedelta(minutes=4.4)
            ),
            NodeEventSeen("gpu-0002", "NoiseOfNobody", "nothing", False, **at),
            NodeEventSeen("gpu-0002", "Rebooted", "before the job", True, now - timedelta(hours=1)),
        ],
    )
    found = incidents_of(eventful)
    assert found is not None
    assert [moment.text for moment in found.moments if moment.lane == "nodes"] == [
        "Node gpu-0002: A process was killed for want of memory",
        "Node gpu-0002: Its kubelet fell silent",
        "Node gpu-0002: It was cordoned",
        "Node gpu-0002: It is well again",
        "Node gpu-0002: It is gone from the cluster",
    ]
    assert not any("rival" in moment.text for moment in found.moments)


def test_its_curve_keeps_the_highest_and_lowest_and_marks_what_is_no_number(eventful: Job) -> None:
    found = incidents_of(eventful)
    assert found is not None
    (curve,) = found.curves
    assert (curve.low, curve.high, len(curve.odd)) == (2.5, 3.0, 1)
    heights = [float(point.split(",")[1]) for point in curve.pieces[0].split()]
    assert (min(heights), max(heights)) == (4.0, 96.0)


def test_the_tab_says_it_in_words_too(world: World, eventful: Job) -> None:
    page = browser(world.people[Role.VIEWER]).get(reverse("jobs:detail", args=[eventful.pk]), {"tab": "incidents"})
    text = page.content.decode()
    assert "Rank 1 ended on gpu-0002, exit code 137" in text
    assert not re.search(r'points="[^"]*nan', text)
