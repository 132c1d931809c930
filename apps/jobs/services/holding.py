"""What jobs hold of their tenant's quota.

A job holds its GPUs from its submit to its end. A suspended one holds none: its place is free for others, and to go on
it must find room again.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import OuterRef, Q, Subquery

from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.domain.problems import Problem
from apps.jobs.models import Job, JobPhase
from apps.quotas import services as quotas

KIND = "job"

ON_NODES = (Phase.STARTING, Phase.RUNNING, Phase.RESTARTING, Phase.SUSPENDING, Phase.STOPPING)
"""Phases in which a job has, or may have, its GPUs."""


def take(job: Job) -> None:
    """Hold what the job needs, in the transaction that makes it or lets it go on. Raises `quotas.NoRoom`."""
    quotas.take(job.tenant_id, job.placement.pool, job.gpus, job.subject)


def problem(job: Job, none: quotas.NoRoom) -> Problem:
    """Why there is no room for the job, for its field."""
    code = "too-many-gpus" if job.gpus > none.limit else "no-room"
    return Problem("ranks", code, {"gpus": job.gpus, "left": none.left, "limit": none.limit})


def live_subjects() -> set[str]:
    """Every job that must hold something now."""
    before = JobPhase.objects.filter(job=OuterRef("pk")).exclude(phase=Phase.STOPPING).order_by("-id")
    jobs = Job.objects.for_system().unfinished().annotate(before=Subquery(before.values("phase")[:1]))
    idle = Q(phase=Phase.SUSPENDED) & ~Q(wanted=Wanted.RUN) | Q(phase=Phase.STOPPING, before=Phase.SUSPENDED)
    return {job.subject for job in jobs.exclude(idle).only("pk")}


def on_nodes(subjects: Iterable[str]) -> set[str]:
    """Those of some jobs that have, or may have, their GPUs."""
    ids = [subject.removeprefix(f"{KIND}:") for subject in subjects]
    jobs = Job.objects.for_system().filter(pk__in=ids, phase__in=ON_NODES)
    return {job.subject for job in jobs.only("pk")}
