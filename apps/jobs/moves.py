"""The one writer of a job's phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.jobs.domain.harvest import ENDED, FIRST, Harvest
from apps.jobs.domain.lifecycle import UNEXPLAINED, Decision, Reason
from apps.jobs.domain.phases import ALLOWED, Phase, Wanted
from apps.jobs.domain.templates import may_write_events
from apps.jobs.models import EventReader, Job, JobPhase, JobRank
from apps.notices import services as notices
from apps.quotas import services as quotas
from apps.streams.services import hint

JOB_MOVED = audit.action("job.moved", _("The job {name} went from {old} to {new}"), name=_("A job's state changes"))
TOLD = {
    Phase.SUCCEEDED: notices.kind(
        "job.succeeded", _("The job {name} has ended well"), name=_("A job succeeds"), icon="check", tone="green"
    ),
    Phase.FAILED: notices.kind(
        "job.failed", _("The job {name} failed. {why}"), name=_("A job fails"), icon="alert-triangle", tone="red"
    ),
    Phase.STOPPED: notices.kind(
        "job.stopped", _("{by} stopped your job {name}"), name=_("A job is stopped"), icon="player-stop", tone="grey"
    ),
}
"""What a job's owner is told of its end; of one they stopped themselves, nothing."""
SYSTEM = Actor.system("reconcile")


class Stale(Exception):
    """Somebody else moved the job first; look again."""


@dataclass(frozen=True)
class Facts:
    """What is written with a move besides the phase."""

    attempt: int
    reason: Reason = field(default_factory=Reason)
    object_uid: str = ""
    """Of the job's object in the cluster, where it is news."""


def move(job: Job, to: Phase, facts: Facts) -> None:
    """Write the phase by conditional UPDATE, with its history, audit and hint. Raises Stale, ValueError.

    A job that stays in its phase gets its new reason and attempt, without history unless the attempt changed.
    """
    old = job.state
    params = dict(facts.reason.params)
    same = (job.reason, job.reason_params, job.attempt) == (facts.reason.code, params, facts.attempt)
    if to is old and same and facts.object_uid in ("", job.object_uid):
        return
    if to is not old and to not in ALLOWED[old]:
        raise ValueError(f"A job cannot go from {old} to {to}.")
    values: dict[str, Any] = {"phase": to, "reason": facts.reason.code, "reason_params": params}
    values["attempt"] = facts.attempt
    if facts.object_uid:
        values["object_uid"] = facts.object_uid
    if to is Phase.RUNNING and job.running_at is None:
        values["running_at"] = timezone.now()
    if to.is_final:
        values["ended_at"] = Now()
    with transaction.atomic():
        if not Job.objects.for_system().filter(pk=job.pk, phase=old, attempt=job.attempt).update(**values):
            raise Stale(job.pk)
        if to is not old or facts.attempt != job.attempt:
            JobPhase.objects.create(
                job=job, phase=to, attempt=facts.attempt, reason=facts.reason.code, reason_params=params
            )
            audit.record(JOB_MOVED, SYSTEM, f"job:{job.pk}", tenant_id=job.tenant_id, name=job.name, old=old, new=to)
            hint(f"tenant.{job.tenant_id}")
            _give_back(job, old, to)
            _look_for_events(job, to)
        if to.is_final:
            _tell_owner(job, to, facts.reason)
        hint(job.topic)
    if to.is_final:
        job.refresh_from_db()
        return
    for name, value in values.items():
        setattr(job, name, value)


def _tell_owner(job: Job, end: Phase, reason: Reason) -> None:
    if end is Phase.STOPPED and job.wanted_by in ("", job.owner.name):
        return
    params: dict[str, Any] = {"name": job.name}
    if end is Phase.STOPPED:
        params["by"] = job.wanted_by
    if end is Phase.FAILED:
        params["why"] = [reason.code, dict(reason.params)]
    link = reverse("jobs:detail", args=[job.pk])
    notices.tell([job.owner_id], TOLD[end], link=link, tenant_id=job.tenant_id, **params)


def _give_back(job: Job, old: Phase, to: Phase) -> None:
    """Release what the job holds where it ends or has been suspended, and book what it has used.

    Its row is locked by the move: whoever resumes it at this moment has done so, or waits.
    """
    if to.is_final:
        alive = JobRank.objects.filter(job=job, phase__in=("Running", "Pending"))
        alive.update(phase="Gone", ended_at=timezone.now())
        book(job)
        quotas.release(job.subject)
    elif to is Phase.SUSPENDED or (old is Phase.SUSPENDED and to is Phase.STOPPING):
        wanted = Job.objects.for_system().values_list("wanted", flat=True).get(pk=job.pk)
        if wanted != Wanted.RUN:
            quotas.release(job.subject)


def _look_for_events(job: Job, to: Phase) -> None:
    """Have the job's volume looked into for event files: soon after it began to run, and once more at its end."""
    if not settings.EVENTS_IMAGE or not may_write_events(job.document):
        return
    now = timezone.now()
    if to is Phase.RUNNING:
        at = now + FIRST
        rows, made = EventReader.objects.get_or_create(job=job, defaults={"next_at": at, "due_at": at})
        if not made and rows.state is Harvest.WAITING:
            EventReader.objects.filter(pk=job.pk, phase=Harvest.WAITING).update(next_at=at, due_at=at)
    elif to.is_final:
        if to is Phase.SUCCEEDED:  # one that was quick may not have been seen to run
            EventReader.objects.get_or_create(job=job)
        EventReader.objects.filter(pk=job.pk).exclude(phase__in=ENDED).update(next_at=now, due_at=now)


def book(job: Job) -> None:
    """Write what each pod of the job has used into the ledger; one that is told twice is booked once."""
    each = job.spec.gpus_per_rank
    pods = [
        quotas.PodUse(rank.pod_uid, each, rank.started_at, rank.ended_at)
        for rank in JobRank.objects.filter(job=job)
        if rank.started_at and rank.ended_at
    ]
    quotas.book(job.tenant_id, job.placement.pool, job.subject, pods)


def explain(job_id: str, attempt: int, reason: Reason) -> None:
    """Say why a run broke, where the move was made before that was known."""
    broke = Q(phase=Phase.RESTARTING, attempt=attempt + 1) | Q(phase=Phase.FAILED, attempt=attempt)
    unexplained = broke & Q(reason=UNEXPLAINED)
    values = {"reason": reason.code, "reason_params": dict(reason.params)}
    with transaction.atomic():
        JobPhase.objects.filter(unexplained, job_id=job_id).update(**values)
        Job.objects.for_system().filter(unexplained, pk=job_id).update(**values)
        hint(Job(pk=job_id).topic)


def take(job: Job, decision: Decision, attempt: int) -> None:
    """Make the move a decision asks for."""
    move(job, decision.phase, Facts(attempt, decision.reason))
