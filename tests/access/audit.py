"""The audit log: an entry of the scientist's tenant."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from apps.audit import services as audit
from apps.jobs.services.submit import JOB_SUBMITTED
from tests.factories import World

LINES: dict[tuple[str, str], str] = {
    #                                    anon nobody view  sci  adm   aud  oper stranger
    ("audit:entry", "GET"): "             302  403   403   403  200   200  403  403",
    ("api:audit", "GET"): "               401  403   403   403  200   200  403  403",
    ("api:audit-export", "GET"): "        401  403   403   403  200   200  403  403",
}


def objects(world: World) -> dict[str, Any]:
    with transaction.atomic():
        audit.record(JOB_SUBMITTED, world.scientist.actor(), "job:1", tenant_id=world.nlp.pk, name="x", gpus=1)
    return {"entry": audit.Entry.objects.latest("pk")}


ARGS = {"audit:entry": lambda made: [made["entry"].pk]}
BODIES: dict[str, Any] = {}
