"""What of deployments waits for a person's hand."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.types import Actor
from apps.notices.services import Waiting, first
from apps.serving.domain.phases import Phase
from apps.serving.models import Deployment
from apps.serving.services.messages import reason_text

RECENT = timedelta(days=3)
MOST = 10


def waiting_for(actor: Actor) -> list[Waiting]:
    """The actor's own deployments that failed lately and were neither started again nor removed."""
    if not actor.user_pk:
        return []
    own = Deployment.objects.visible_to(actor).filter(owner_id=uuid.UUID(actor.user_pk), phase=Phase.FAILED)
    return first(own.filter(phase_at__gt=timezone.now() - RECENT).order_by("-pk"), MOST, _failed)


def _failed(deployment: Deployment) -> Waiting:
    return Waiting(
        _("{name} failed").format(name=deployment.name),
        reverse("serving:detail", args=[deployment.pk]),
        deployment.phase_at,
        note=reason_text(deployment.reason, deployment.reason_params),
        act=_("Look at it"),
        icon="alert-triangle",
        tone="red",
        tenant_id=deployment.tenant_id,
    )
