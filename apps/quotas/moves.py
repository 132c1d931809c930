"""The one writer of a request's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.quotas.domain.states import ALLOWED, State
from apps.quotas.models import QuotaRequest, RequestEvent
from apps.streams.services import hint


class Stale(Exception):
    """Somebody else moved the request first."""


@dataclass(frozen=True)
class Step:
    """What is written with a move: who made it, which action it is in the audit log, the words they gave, and other
    columns of the request."""

    actor: Actor
    action: audit.Action
    kind: str
    text: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def move(request: QuotaRequest, to: State, step: Step) -> None:
    """Write the state by conditional UPDATE, with its history, audit and hint. Raises Stale, ValueError."""
    old = request.standing
    if to not in ALLOWED[old]:
        raise ValueError(f"A request cannot go from {old} to {to}.")
    values = {"starts_at": request.starts_at, "ends_at": request.ends_at, **step.values}
    due = values["starts_at"] if to is State.APPROVED else values["ends_at"]
    values |= {"state": to, "moved_at": timezone.now(), "due_at": None if to.is_final else due}
    with transaction.atomic():
        if not QuotaRequest.objects.for_system().filter(pk=request.pk, state=old).update(**values):
            raise Stale(request.pk)
        note(request, step)
    request.refresh_from_db()


def note(request: QuotaRequest, step: Step) -> None:
    """Write into the history of a request, in the caller's transaction."""
    RequestEvent.objects.create(
        request=request, kind=step.kind, actor_id=step.actor.user_pk or None, text=step.text, params=step.params
    )
    audit.record(
        step.action, step.actor, f"quota-request:{request.pk}", tenant_id=request.tenant_id, name=str(request),
        **step.params,
    )  # fmt: skip
    hint(request.topic)
    hint(f"tenant.{request.tenant_id}")
