"""What of jobs and drafts waits for a person's hand."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.types import Actor
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Draft, Job
from apps.jobs.services.messages import reason_text
from apps.jobs.services.overview import stuck_jobs
from apps.notices.services import Waiting

DRAFTS = 5


def waiting_for(actor: Actor) -> list[Waiting]:
    """The actor's own jobs that are stuck, and their drafts that are not submitted."""
    if not actor.user_pk:
        return []
    drafts = Draft.objects.visible_to(actor).filter(submitted_at=None).select_related("tenant").order_by("-updated_at")
    return [*map(_stuck, stuck_jobs(actor)), *map(_unfinished, drafts[:DRAFTS])]


def _stuck(job: Job) -> Waiting:
    failed = job.state is Phase.FAILED
    text = _("{name} failed") if failed else _("{name} cannot pull its image")
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


def _unfinished(draft: Draft) -> Waiting:
    return Waiting(
        _("{name} is not submitted").format(name=draft.document.get("name") or _("Draft without a name")),
        reverse("jobs:draft-data", args=[draft.pk]),
        draft.updated_at,
        note=draft.tenant.name,
        act=_("Go on"),
        icon="pencil",
        tone="grey",
        tenant_id=draft.tenant_id,
    )
