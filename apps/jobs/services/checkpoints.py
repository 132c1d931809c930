"""What is known of jobs' checkpoints: what their logs say was saved, and what of it is good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.jobs.domain.problems import Problem
from apps.jobs.domain.traininglog import CHECKPOINT
from apps.jobs.models import Job, LossWatch
from apps.streams import services as streams
from apps.tenants import services as tenants

MOST = 1000


def watch_of(job: Job) -> LossWatch:
    """The job's row, or one that says that nothing was found yet."""
    found: LossWatch | None = getattr(job, "loss_watch", None)
    return found or LossWatch(job=job)


@dataclass(frozen=True)
class Saved:
    """A checkpoint that the log says was saved; one that is not good is in quarantine."""

    step: int
    attempt: int
    at: datetime
    good: bool


def checkpoints_of(job: Job) -> list[Saved]:
    """A job's checkpoints by its log, the newest first; a step that was saved again counts once."""
    row, found = watch_of(job), dict[int, Saved]()
    for point in streams.logged(job.topic, (CHECKPOINT,), limit=MOST):
        found.setdefault(point.step, Saved(point.step, point.attempt, point.at, row.is_good(point.step)))
    return [found[step] for step in sorted(found, reverse=True)]


def offered(job: Job) -> Saved | None:
    """The checkpoint to go on from: the newest good one."""
    return next((saved for saved in checkpoints_of(job) if saved.good), None)


def origin_problems(tenant_id: int, document: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the checkpoint that a document names: not of a job of the tenant, elsewhere, in quarantine."""
    job_id, _at, step = str(document.get("resume_from") or "").strip().partition("@")
    if not step.isdecimal():
        return []
    job = Job.objects.for_system().filter(pk=job_id, tenant_id=tenant_id).select_related("loss_watch").first()
    if job is None:
        return [Problem("resume_from", "unknown-checkpoint", {"value": job_id[:40]})]
    place = tenants.placement_of(tenant_id)
    if place is not None and place.pk != job.placement_id:
        return [Problem("resume_from", "checkpoint-elsewhere", {"name": job.name})]
    if not watch_of(job).is_good(int(step)):
        return [Problem("resume_from", "quarantined-checkpoint", {"step": int(step), "name": job.name})]
    return []
