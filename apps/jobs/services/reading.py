"""What pages and REST show of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts.types import Actor
from apps.clusters.services.registry import Link
from apps.jobs.domain.manifests import Place, job_manifests
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.problems import InvalidDocument
from apps.jobs.domain.spec import read_spec
from apps.jobs.models import Draft, Job, JobPhase, JobRank
from apps.jobs.services.drafts import whole_problems
from apps.jobs.services.messages import reason_text
from apps.streams import services as streams
from apps.tenants import services as tenants


@dataclass(frozen=True)
class Progress:
    """How far a job has come: `step` of `total` (None where its template does not know), and its last loss."""

    step: int | None
    total: int | None
    loss: float | None
    at: datetime | None

    @property
    def percent(self) -> int | None:
        return min(100, round(100 * self.step / self.total)) if self.step and self.total else None


def links(actor: Actor, job_ids: set[str]) -> dict[str, Link]:
    """Name and page of those of some jobs that this person may see."""
    seen = Job.objects.visible_to(actor).filter(pk__in=job_ids).values_list("pk", "name")
    return {pk: Link(name, reverse("jobs:detail", args=[pk])) for pk, name in seen}


def progress_of(jobs: list[Job]) -> dict[str, Progress]:
    """Progress by job id, in one query for all of them."""
    latest = streams.latest([job.topic for job in jobs], "loss")
    found = {}
    for job in jobs:
        point = latest.get(job.topic)
        total = job.spec.total_steps
        found[job.pk] = (
            Progress(point.step, total, point.value, point.at) if point else Progress(None, total, None, None)
        )
    return found


def ranks_of(job: Job, *, attempt: int | None = None) -> QuerySet[JobRank]:
    """The ranks of an attempt (default: the current one), by rank."""
    return JobRank.objects.filter(job=job, attempt=attempt or job.attempt).order_by("rank")


def moves_of(job: Job) -> QuerySet[JobPhase]:
    """Every move of a job, in any order."""
    return JobPhase.objects.filter(job=job)


def history_of(job: Job) -> list[JobPhase]:
    """Every move of a job, oldest first."""
    return list(moves_of(job).order_by("id"))


def reason_of(job: Job) -> str:
    """Why a job is where it is, as a sentence that sends nobody to log lines that are not there; "" for nothing."""
    if not job.reason:
        return ""
    code, params = job.reason, job.reason_params
    if code == "failed.exit" and not streams.wrote(job.topic, job.attempt, int(params.get("rank", 0))):
        code = "failed.wordless"
    return reason_text(code, params)


@dataclass(frozen=True)
class Stretch:
    """A stretch of a job's time line in one phase; `end` is None for the one that lasts."""

    phase: Phase
    attempt: int
    start: datetime
    end: datetime | None
    reason: str


def timeline_of(job: Job) -> list[Stretch]:
    """The job's life as stretches without gaps."""
    rows = history_of(job)
    ends: list[datetime | None] = [row.at for row in rows[1:]]
    ends.append(job.ended_at)
    return [
        Stretch(Phase(row.phase), row.attempt, row.at, end, reason_text(row.reason, row.reason_params))
        for row, end in zip(rows, ends, strict=True)
        if not Phase(row.phase).is_final
    ]


def place_of(tenant_id: int) -> Place | None:
    """Where a tenant's jobs go, or None while it has no place in a cluster."""
    placement = tenants.placement_of(tenant_id)
    return None if placement is None else place(placement)


def place(placement: Any) -> Place:
    """A placement row as the manifests need it."""
    return Place(placement.namespace, placement.queue, placement.tenant.slug, placement.accelerator)


def manifests_of(subject: Job | Draft) -> list[dict[str, Any]]:
    """Exactly what the cluster is (or would be) sent. Raises InvalidDocument for a draft that is not whole."""
    if isinstance(subject, Job):
        return job_manifests(subject.pk, subject.spec, place(subject.placement))
    where = place_of(subject.tenant_id)
    return [] if where is None else job_manifests(subject.job_id, read_spec(subject.document), where)


def render_document(document: Mapping[str, Any], where: Place) -> list[dict[str, Any]]:
    """The manifests of a document that nobody submitted; the job's id is a stand-in. Raises InvalidDocument."""
    if problems := whole_problems(document):
        raise InvalidDocument(problems)
    return job_manifests("0" * 26, read_spec(document), where)
