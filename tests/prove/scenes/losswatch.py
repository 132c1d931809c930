"""A job on which the loss watch tripped after a restart, and one whose log says why it failed."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.clusters.services import PodEventSeen
from apps.clusters.services.queues import NodeEventSeen, note_events
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Job, JobPhase, JobRank
from apps.jobs.reconcile.losswatch import watch_loss
from apps.jobs.services.podevents import note_events as note_pod_events
from apps.streams import services as streams
from tests import factories
from tests.factories import World

PAGES = {
    "loss-verdict": ("data-scientist", "/jobs/{diverged}/"),
    "loss-watch": ("data-scientist", "/jobs/{diverged}/?tab=watch"),
    "loss-watch-viewer": ("viewer", "/jobs/{diverged}/?tab=watch"),
    "loss-incidents": ("data-scientist", "/jobs/{diverged}/?tab=incidents"),
    "job-causes": ("data-scientist", "/jobs/{broke}/"),
}


def seed(world: World, me: User) -> dict[str, Any]:
    return {"diverged": _diverged(world, me).pk, "broke": _broke(world, me).pk}


def _diverged(world: World, me: User) -> Job:
    now = timezone.now()
    document = {"name": "客服助手 13B, 学习率 ×30", "learning_rate": 3.0, "steps": 4000}
    job = factories.job(me, world.place, document=document, phase=Phase.RUNNING, running_at=now - timedelta(minutes=50))
    JobPhase.objects.filter(job=job).delete()
    story = (
        (58, Phase.SUBMITTED, 1), (57, Phase.WAITING, 1), (52, Phase.STARTING, 1), (50, Phase.RUNNING, 1),
        (24, Phase.RESTARTING, 2), (23, Phase.STARTING, 2), (22, Phase.RUNNING, 2), (3, Phase.SUSPENDING, 2),
        (2, Phase.SUSPENDED, 2),
    )  # fmt: skip
    for minutes, phase, attempt in story:
        reason = {"reason": "suspended.watch"} if phase is Phase.SUSPENDED else {}
        JobPhase.objects.create(job=job, phase=phase, attempt=attempt, at=now - timedelta(minutes=minutes), **reason)
    for attempt, first, begun in ((1, 0, 50), (2, 100, 22)):
        for rank in range(2):
            JobRank.objects.create(
                job=job, pod_uid=f"{job.pk}{attempt}{rank}", pod_name=f"j-x-{rank}", attempt=attempt, rank=rank,
                node=f"gpu-000{rank + 1}", phase="Failed", exit_code=137 if attempt == 1 else 143,
                started_at=now - timedelta(minutes=begun), ended_at=now - timedelta(minutes=24 if attempt == 1 else 2),
            )  # fmt: skip
        losses = [(step, 3.8 - min(step, 240) / 120) for step in range(first, 125 if attempt == 1 else 215, 5)]
        losses += [(215, 38.0), (220, 2.4e8), (225, float("nan"))] if attempt == 2 else []
        readings = [("loss", step, loss, now - timedelta(minutes=begun - (step - first) / 7)) for step, loss in losses]
        marks = [("checkpoint", step, 1.0, at) for _loss, step, _value, at in readings if step % 20 == 0 and step]
        streams.record_points(job.topic, attempt, readings + marks)
    note_events(
        world.place.cluster_id,
        [
            NodeEventSeen("gpu-0002", "SystemOOM", "out of memory", True, now - timedelta(minutes=24)),
            NodeEventSeen("gpu-0001", "NodeNotSchedulable", "cordoned", False, now - timedelta(minutes=12)),
        ],
    )
    note_pod_events(_said(job, now))
    Job.objects.for_system().filter(pk=job.pk).update(attempt=2)
    watch_loss(job.pk)
    Job.objects.for_system().filter(pk=job.pk).update(
        phase=Phase.SUSPENDED, wanted=Wanted.SUSPEND, reason="suspended.watch", wanted_by="system:losswatch"
    )
    return job


def _said(job: Job, now: datetime) -> list[PodEventSeen]:
    """A pull that failed again and again before the second attempt, and a hundred ranks without a place."""
    image = 'Back-off pulling image "registry.internal/nlp/trainer@sha256:0f3a91": manifest unknown'
    first, last = now - timedelta(minutes=23.4), now - timedelta(minutes=22.1)
    pull = PodEventSeen(
        job.pk, f"{job.pk}p", "BackOff", image, False, 14, first, last, "j-x-1", 2, 1, "gpu-0002",
    )  # fmt: skip
    words = "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."
    begun, placed = now - timedelta(minutes=57), now - timedelta(minutes=52)
    return [pull] + [
        PodEventSeen(job.pk, f"{job.pk}{n}", "FailedScheduling", words, True, 3, begun, placed, f"j-x-{n}", 1, n)
        for n in range(100)
    ]


def _broke(world: World, me: User) -> Job:
    now = timezone.now()
    job = factories.job(me, world.place, document={"name": "ocr-large"}, phase=Phase.FAILED, ended_at=now)
    Job.objects.for_system().filter(pk=job.pk).update(
        reason="failed.exit", reason_params={"rank": 1, "code": 1, "node": "gpu-0002"}
    )
    JobRank.objects.create(
        job=job, pod_uid=f"{job.pk}1", pod_name="j-y-1", attempt=1, rank=1, node="gpu-0002", phase="Failed", exit_code=1,
        started_at=now - timedelta(minutes=3), ended_at=now,
    )  # fmt: skip
    texts = (
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=2912, GPU has fallen off the bus.",
        "[rank1]:[E602] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5125, OpType=ALLREDUCE)",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    )
    lines = [streams.LogLine(time.time_ns(), "ERROR", 1, None, text) for text in texts]
    streams.append(job.topic, streams.LogFrame(streams.Source(1, 1, "j-y-1"), lines))
    return job
