"""The one writer of a deployment's phase."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.notices import services as notices
from apps.serving.domain.lifecycle import Reason
from apps.serving.domain.phases import ALLOWED, SERVING, Phase, Wanted
from apps.serving.models import Deployment, DeploymentPhase
from apps.streams.services import hint

DEPLOYMENT_MOVED = audit.action(
    "deployment.moved",
    _("The deployment {name} went from {old} to {new}"),
    name=_("A deployment's state changes"),
)
SYSTEM = Actor.system("serving")

TOLD_READY = notices.kind(
    "deployment.ready",
    _("{name} is ready: {model} answers requests"),
    name=_("A deployment is ready"),
    icon="rocket",
    tone="green",
)
TOLD_FAILED = notices.kind(
    "deployment.failed",
    _("{name} could not be started. Its page says why"),
    name=_("A deployment failed"),
    icon="alert-triangle",
    tone="red",
)


class Stale(Exception):
    """Somebody else moved the deployment first; look again."""


def move(deployment: Deployment, to: Phase, reason: Reason) -> None:
    """Write the phase by conditional UPDATE, with its history, audit, notices and hint. Raises Stale, ValueError.

    A deployment that stays in its phase gets its new reason, without history. One that failed wants nothing more until
    somebody starts it again.
    """
    old, params = deployment.state, dict(reason.params)
    if to is old and (deployment.reason, deployment.reason_params) == (reason.code, params):
        return
    if to is not old and to not in ALLOWED[old]:
        raise ValueError(f"A deployment cannot go from {old} to {to}.")
    values: dict[str, Any] = {"reason": reason.code, "reason_params": params}
    if to is not old:
        values |= {"phase": to, "phase_at": Now()}
    if to is Phase.READY:
        values |= {"settled": deployment.replicas}
        values |= {"ready_at": timezone.now()} if deployment.ready_at is None else {}
    if to is Phase.FAILED:
        values["wanted"] = Wanted.STOP
    if to is not old and to.is_at_rest:
        values |= {"ended_at": Now(), "settled": 0, "ready_at": None}
    with transaction.atomic():
        here = Deployment.objects.for_system().filter(pk=deployment.pk, phase=old, wanted=deployment.wanted)
        if not here.update(**values):
            raise Stale(deployment.pk)
        if to is not old:
            _tell(deployment, to, old)
            DeploymentPhase.objects.create(deployment=deployment, phase=to, reason=reason.code, reason_params=params)
            audit.record(
                DEPLOYMENT_MOVED, SYSTEM, deployment.subject, tenant_id=deployment.tenant_id, name=deployment.name,
                old=old, new=to,
            )  # fmt: skip
            hint(f"tenant.{deployment.tenant_id}")
        hint(deployment.topic)
    deployment.refresh_from_db()


def _tell(deployment: Deployment, to: Phase, old: Phase) -> None:
    """Tell the owner the first time it is ready, and when it failed."""
    kind = TOLD_FAILED if to is Phase.FAILED else TOLD_READY if to is Phase.READY and old not in SERVING else None
    if kind is not None:
        link = reverse("serving:detail", args=[deployment.pk])
        params = {"name": deployment.name} | ({"model": deployment.model} if kind is TOLD_READY else {})
        notices.tell([deployment.owner_id], kind, link=link, tenant_id=deployment.tenant_id, **params)
