"""What of jobs waits for a person's hand."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.types import Actor
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.jobs.services.messages import reason_text
from apps.jobs.services.overview import stuck_jobs
from apps.notices.services import Waiting, first

MOST = 10


def waiting_for(actor: Actor) -> list[Waiting]:
    """The actor's own jobs that are stuck."""
    return first(stuck_jobs(actor), MOST, _stuck) if actor.user_pk else []


def _stuck(job: Job) -> Waiting:
    failed = job.state is Phase.FAILED
    texts = {
        "starting.image": _("{name} cannot pull its image"),
        "starting.stranded": _("{name} lost a part of its place"),
    }
    text = _("{name} failed") if failed else texts.get(job.reason, _("{name} cannot start as it is"))
    return Waiting(
        text.format(name=job.name),
        reverse("jobs:detail", args=[job.pk]),
        job.ended_at or job.created_at,
        note=reason_text(job.reason, job.reason_params),
        act=_("Look at it"),
        icon="alert-triangle" if failed else "hourglass",
        tone="red" if failed else "amber",
        tenant_id=job.tenant_id,
    )
