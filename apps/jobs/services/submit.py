"""Submitting: from a draft or a document to a row that the reconciler takes to the cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.problems import InvalidDocument, Problem
from apps.jobs.models import Draft, IdempotencyKey, Job, JobPhase, new_job_id
from apps.jobs.services import away, holding
from apps.jobs.services.checkpoints import origin_problems
from apps.jobs.services.drafts import unknown_secrets, whole_spec
from apps.quotas import services as quotas
from apps.streams.services import hint
from apps.tenants import services as tenants

JOB_SUBMITTED = audit.action(
    "job.submitted",
    ngettext_lazy(
        "{actor} submitted the job {name} with {gpus} GPU", "{actor} submitted the job {name} with {gpus} GPUs", "gpus"
    ),
    name=_("Submit a job"),
)


class KeyReused(Exception):
    """The same idempotency key came with another request."""


@dataclass(frozen=True)
class Request:
    """What is submitted where. `job_id` is chosen before the commit: every retry speaks of the same objects."""

    tenant_id: int
    document: Mapping[str, Any]
    job_id: str
    cloned_from_id: str | None = None


@audit.use_case(JOB_SUBMITTED)
def submit_draft(actor: Actor, *, draft: Draft) -> Job:
    """Submit a draft once: a second press of the button finds the job of the first. Raises InvalidDocument."""
    actor.require(Permission.JOB_SUBMIT, draft.tenant_id, target=f"draft:{draft.pk}")
    draft = Draft.objects.for_system().select_for_update().get(pk=draft.pk)
    if job := Job.objects.for_system().filter(pk=draft.job_id).first():
        return job
    job = _create(actor, Request(draft.tenant_id, draft.document, draft.job_id, draft.cloned_from_id))
    draft.submitted_at = Now()
    draft.save(update_fields=["submitted_at"])
    _hold(job)
    return job


@audit.use_case(JOB_SUBMITTED)
def submit(actor: Actor, *, tenant_id: int, document: Mapping[str, Any], key: str = "") -> Job:
    """Submit a document. With a `key`, the same request again answers with the same job; raises KeyReused if it
    differs, InvalidDocument with every problem of the document, or with what the quota leaves."""
    actor.require(Permission.JOB_SUBMIT, tenant_id, target=f"tenant:{tenant_id}")
    if not key:
        job = _create(actor, Request(tenant_id, document, new_job_id()))
        _hold(job)
        return job
    digest = hashlib.sha256(json.dumps([tenant_id, document], sort_keys=True).encode()).hexdigest()
    with connection.cursor() as cursor:  # two requests with one key take turns
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{actor.user_pk}:{key}"])
    known = IdempotencyKey.objects.select_related("job").filter(owner__id=actor.user_pk, key=key).first()
    if known is None:
        job = _create(actor, Request(tenant_id, document, new_job_id()))
        IdempotencyKey.objects.create(owner_id=actor.user_pk, key=key, digest=digest, job=job)
        _hold(job)
        return job
    if known.digest != digest:
        raise KeyReused
    return known.job


def _create(actor: Actor, request: Request) -> Job:
    spec = whole_spec(request.document)
    document = spec.document()
    problems = unknown_secrets(request.tenant_id, spec.secrets)
    if problems := problems + origin_problems(request.tenant_id, document):
        raise InvalidDocument(problems)
    placement = tenants.placement_of(request.tenant_id)
    if placement is None:
        raise InvalidDocument([Problem("", "no-placement")])
    if placement.cluster.maintenance_since is not None:
        name, reason = placement.cluster.name, placement.cluster.maintenance_reason
        raise InvalidDocument([Problem("", "maintenance", {"cluster": name, "reason": reason})])
    job = Job(
        pk=request.job_id,
        tenant=placement.tenant,
        owner_id=actor.user_pk,
        placement=placement,
        name=spec.name,
        document=document,
        gpus=spec.gpus,
        cloned_from_id=request.cloned_from_id,
    )
    if away.is_away(job):
        away.let_wait(job)
    job.save(force_insert=True)
    JobPhase.objects.create(job=job, phase=Phase.SUBMITTED)
    audit.record(JOB_SUBMITTED, actor, f"job:{job.pk}", tenant_id=job.tenant_id, name=job.name, gpus=job.gpus)
    hint(job.topic)
    hint(f"tenant.{job.tenant_id}")
    away.wake_unless_away(job)
    return job


def _hold(job: Job) -> None:
    """Last of all: until the commit, others of the tenant wait for their turn at its quota. Raises InvalidDocument, and
    then nothing of the job is kept."""
    try:
        holding.take(job)
    except quotas.NoRoom as none:
        raise InvalidDocument([holding.problem(job, none)]) from none
