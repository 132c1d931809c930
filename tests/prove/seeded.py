"""A world to look at: people, jobs in every state, drafts, curves, log lines."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.clusters.models import Cluster, ClusterNode
from apps.jobs import services
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Draft, Job, JobPhase, JobRank
from apps.streams import services as streams
from apps.tenants.models import Placement
from tests import factories
from tests.pages import session_of
from tests.prove.scenes import SCENES

STORY: dict[Phase, list[Phase]] = {
    Phase.WAITING: [Phase.SUBMITTED, Phase.WAITING],
    Phase.STARTING: [Phase.SUBMITTED, Phase.WAITING, Phase.STARTING],
    Phase.RUNNING: [Phase.SUBMITTED, Phase.WAITING, Phase.STARTING, Phase.RUNNING],
}


@dataclass
class Seeds:
    """What the pages are about, and a session cookie for each person."""

    cookies: dict[str, str]
    running: Job
    restarted: Job
    failed: Job
    waiting: Job
    silent: Job
    draft: Draft
    broken: Draft
    cloned: Draft
    more: dict[str, Any]
    """What the scenes of other apps named."""

    @property
    def names(self) -> dict[str, Any]:
        """Values for the `{names}` in addresses."""
        return self.more | {name: row.pk for name, row in vars(self).items() if isinstance(row, Model)}


def seed() -> Seeds:
    world = factories.World.make()
    names = {Role.SCIENTIST: "陈静", Role.VIEWER: "Amara Okafor", Role.TEAM_ADMIN: "Lars Lindqvist"}
    for role, name in names.items():
        User.objects.filter(pk=world.people[role].pk).update(name=name)
    me = User.objects.get(pk=world.scientist.pk)
    jobs = _jobs(world, me)
    for number, used in enumerate((8, 4, 0, 0), 1):
        ClusterNode.objects.create(
            cluster=world.place.cluster, name=f"gpu-000{number}", product="A800-80G", resource="nvidia.com/gpu", total=8,
            used=used, ready=True,
        )  # fmt: skip
    Cluster.objects.filter(pk=world.place.cluster.pk).update(seen_at=timezone.now())
    with transaction.atomic():
        draft = services.begin_draft(me.actor(), tenant_id=world.nlp.pk, template="charlm")
        draft = services.save_draft(me.actor(), draft, {"name": "evening run", "steps": "800"}, version=1)
        broken = services.begin_draft(me.actor(), tenant_id=world.nlp.pk, template="torchrun")
        typed = {"name": "a/b", "image": "Team Trainer", "script": "train.py --name 'x", "ranks": "1.5"}
        broken = services.save_draft(me.actor(), broken, typed, version=1)
        cloned = services.begin_draft(me.actor(), tenant_id=world.nlp.pk, clone_of=jobs["failed"])
        cloned = services.save_draft(me.actor(), cloned, {"learning_rate": "0.001", "note": "Lower rate"}, version=1)
    answer = {"state": "accepted", "version": draft.version, "seconds": 0.4, "warnings": [], "text": ""}
    objects = [{"kind": "PersistentVolumeClaim", "name": "j-1"}, {"kind": "Job", "name": "j-1"}]
    Draft.objects.filter(pk=draft.pk).update(dry_run={**answer, "objects": objects})
    refusal = 'admission webhook "validatejob.volcano.sh" denied the request: queue tenant-nlp is not open'
    refused = {"state": "refused", "version": cloned.version, "seconds": 0.3, "objects": objects[:1]}
    refused |= {"refused": objects[1], "warnings": [], "text": refusal}
    Draft.objects.filter(pk=cloned.pk).update(dry_run=refused)
    people = {role.value: world.people[role] for role in Role} | {"nobody": factories.user("nobody")}
    cookies = {name: cookie_of(user) for name, user in people.items()}
    more = {name: value for scene in SCENES for name, value in scene.seed(world, me).items()}
    return Seeds(cookies, **jobs, draft=draft, broken=broken, cloned=cloned, more=more)


def cookie_of(user: User) -> str:
    client = Client()
    session_of(client, user)
    return str(client.session.session_key)


def _jobs(world: factories.World, me: User) -> dict[str, Job]:
    now = timezone.now()
    other = world.people[Role.TEAM_ADMIN]
    for number in range(56):
        ended = now - timedelta(days=4, hours=number)
        old = factories.job(
            other, world.place, document={"name": f"nightly-{number:03}"}, phase=Phase.SUCCEEDED, ended_at=ended
        )
        Job.objects.filter(pk=old.pk).update(created_at=ended - timedelta(hours=1))
    _ended(world, other, "tok-bench-zh", Phase.STOPPED, "stopped.by", {"name": "Lars Lindqvist"})
    failed = _ended(
        world, me, "分词器-对照-v2", Phase.FAILED, "failed.exit", {"rank": 1, "code": 3, "node": "gpu-0002"}
    )
    suspended = factories.job(
        me, world.place, document={"name": "mistral-7b-sft"}, phase=Phase.SUSPENDED, wanted=Wanted.SUSPEND
    )
    _history(suspended, [*STORY[Phase.RUNNING], Phase.SUSPENDING, Phase.SUSPENDED])
    waiting = factories.job(
        me, world.place, document={"name": "qwen-14b-rm", "ranks": 16}, phase=Phase.WAITING, reason="waiting.nodes",
        reason_params={"text": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."},
    )  # fmt: skip
    _history(waiting, STORY[Phase.WAITING])
    silent = factories.job(
        me, _silent_place(world), document={"name": "asr-finetune-zh"}, phase=Phase.RUNNING, running_at=now
    )
    _history(silent, STORY[Phase.RUNNING])
    restarted = factories.job(
        other, world.place, document={"name": "llama-7b-sft", "steps": 400, "ranks": 4}, phase=Phase.RUNNING, attempt=2,
        running_at=now - timedelta(minutes=30),
    )  # fmt: skip
    _twice(restarted, now)
    running = factories.job(
        me, world.place, document={"name": "first light", "steps": 400}, phase=Phase.RUNNING,
        running_at=now - timedelta(minutes=3),
    )  # fmt: skip
    _history(running, STORY[Phase.RUNNING])
    seat(running, 1, 2, now)
    _train(running, 1, range(1, 240), now)
    return {"running": running, "restarted": restarted, "failed": failed, "waiting": waiting, "silent": silent}


def _silent_place(world: factories.World) -> Placement:
    since = timezone.now() - timedelta(minutes=6)
    cluster = Cluster.objects.create(slug="edge-c", name="Edge C", server="http://127.0.0.1:1", unreachable_since=since)
    return Placement.objects.create(tenant=world.nlp, cluster=cluster, namespace="tenant-nlp-edge", queue="tenant-nlp")


def _history(job: Job, phases: list[Phase], minutes: float = 1.5) -> None:
    JobPhase.objects.filter(job=job).delete()
    now = timezone.now()
    for index, phase in enumerate(phases):
        at = now - timedelta(minutes=minutes * (len(phases) - index) + 1)
        JobPhase.objects.create(job=job, phase=phase, at=at)
    Job.objects.filter(pk=job.pk).update(created_at=now - timedelta(minutes=minutes * len(phases) + 1))


def _ended(world: factories.World, owner: User, name: str, phase: Phase, reason: str, params: dict[str, Any]) -> Job:
    now = timezone.now()
    job = factories.job(
        owner, world.place, document={"name": name, "steps": 300}, phase=phase, reason=reason, reason_params=params,
        ended_at=now - timedelta(minutes=1), running_at=now - timedelta(minutes=4),
    )  # fmt: skip
    _history(job, [*STORY[Phase.RUNNING], phase])
    last = JobPhase.objects.filter(job=job, phase=phase)
    last.update(reason=reason, reason_params=params)
    Job.objects.filter(pk=job.pk).update(ended_at=last.get().at)
    _train(job, 1, range(1, 90), now)
    seat(job, 1, 2, now)
    JobRank.objects.filter(job=job, rank=1).update(phase="Failed", exit_code=3, message="Error", ended_at=now)
    return job


def _twice(job: Job, now: datetime) -> None:
    JobPhase.objects.filter(job=job).delete()
    story = [
        (Phase.SUBMITTED, 1, 32), (Phase.WAITING, 1, 31.5), (Phase.STARTING, 1, 31), (Phase.RUNNING, 1, 30),
        (Phase.RESTARTING, 2, 14), (Phase.STARTING, 2, 13), (Phase.RUNNING, 2, 12),
    ]  # fmt: skip
    for phase, attempt, minutes in story:
        JobPhase.objects.create(job=job, phase=phase, attempt=attempt, at=now - timedelta(minutes=minutes))
    Job.objects.filter(pk=job.pk).update(created_at=now - timedelta(minutes=32))
    _train(job, 1, range(1, 200), now - timedelta(minutes=14))
    _train(job, 2, range(150, 310), now)
    seat(job, 2, 4, now)


def seat(job: Job, attempt: int, count: int, now: datetime) -> None:
    for rank in range(count):
        pod = f"j-{job.pk.lower()}-worker-{rank - 1}" if rank else f"j-{job.pk.lower()}-master-0"
        JobRank.objects.create(
            job=job, pod_uid=str(uuid.uuid4()), pod_name=pod,
            attempt=attempt, rank=rank, node=f"gpu-000{1 + rank // 2}", phase="Running",
            started_at=now - timedelta(minutes=3),
        )  # fmt: skip


def _train(job: Job, attempt: int, steps: range, now: datetime) -> None:
    """Points and lines as a follower writes them."""
    readings = []
    for step in steps:
        at = now - timedelta(seconds=0.5 * (steps.stop - step))
        loss = 1.6 + 1.7 * math.exp(-step / 90) + 0.05 * math.sin(step * 2.1)
        readings.append(("loss", step, loss + (0.9 if step == 170 else 0), at))
        readings.append(("learning_rate", step, 3e-3 * min(1, step / 40) * (1 - step / 500), at))
        readings.append(("grad_norm", step, math.nan if step == 120 else 0.9 + 0.2 * math.sin(step), at))
        readings.append(("tokens_per_second", step, 21500 + 300 * math.cos(step / 3), at))
        lines = [_line(at, 0, step, f"Loss: {loss:.4f}, LR: 3e-3, Grad Norm: 0.91, Tokens/s: 21500")]
        if step % 50 == 0:
            lines.append(_line(at, 0, step, "Checkpoint saved in 0.1 s"))
        streams.append(job.topic, streams.LogFrame(streams.Source(0, attempt, "master-0"), lines))
        if step % 7 == 0:
            warning = _line(at, 1, step, "batch 0412: 3 of 8 samples longer than 64 characters, cut", "WARN")
            streams.append(job.topic, streams.LogFrame(streams.Source(1, attempt, "worker-0"), [warning]))
    streams.record_points(job.topic, attempt, readings)


def _line(at: datetime, rank: int, step: int, text: str, level: str = "INFO") -> streams.LogLine:
    return streams.LogLine(int(at.timestamp() * 1e9), level, rank, step, text)
