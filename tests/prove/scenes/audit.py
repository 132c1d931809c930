"""The audit log: an opened change, the life of a job, a person's day, what was refused, a search that finds nothing."""

from __future__ import annotations

from typing import Any

import structlog
from django.db import transaction

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.accounts.types import Actor, Denied
from apps.audit import services as audit
from apps.audit.models import Entry
from apps.jobs import services as jobs
from apps.jobs.moves import JOB_MOVED
from apps.jobs.services.submit import JOB_SUBMITTED
from tests.factories import World

PAGES = {
    "audit-open": ("auditor", "/audit/?actor=system:reconcile&target=job:01PROVEDINASCENE&open={opened}"),
    "audit-life": ("auditor", "/audit/?life=job:01PROVEDINASCENE&sort=old"),
    "audit-refused": ("team-admin", "/audit/?result=refused&who=Amara"),
    "audit-none-fits": ("auditor", "/audit/?about=nothing-like-it&since=2026-01-01"),
    "audit-unreadable": ("auditor", "/audit/?since=yesterday"),
    "audit-entry": ("auditor", "/audit/{opened}/"),
}
EXPECTED_ERRORS = {"audit-unreadable": 422}


def seed(world: World, me: User) -> dict[str, Any]:
    job, actor, watch = "job:01PROVEDINASCENE", me.actor(), Actor.system("reconcile")
    tenant, name = world.nlp.pk, "llama-7b-长上下文-sft"
    with (
        transaction.atomic(),
        structlog.contextvars.bound_contextvars(request_id="5b0c8f0e-7c21-4d0e-8a51-0f6f3a3e9b1d"),
    ):
        audit.record(JOB_SUBMITTED, actor, job, tenant_id=tenant, name=name, gpus=16)
        for old, new in (("submitted", "waiting"), ("waiting", "starting"), ("starting", "running")):
            audit.record(JOB_MOVED, watch, job, tenant_id=tenant, name=name, old=old, new=new)
    opened = Entry.objects.latest("pk").pk
    for _attempt in range(3):
        try:
            jobs.begin_draft(world.actor(Role.VIEWER), tenant_id=tenant, template="charlm")
        except Denied:
            pass
    return {"opened": opened}
