"""What time does to requests: they begin, they end, or nobody decided until it was too late."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.quotas import moves
from apps.quotas.domain.states import State
from apps.quotas.models import Allowance, QuotaRequest
from apps.quotas.services import told
from apps.quotas.services.registry import limit_changed

BEGAN = audit.action("quota.began", _("The quota of {name} began"), name=_("Granted quota begins"))
ENDED = audit.action("quota.ended", _("The quota of {name} ended and was given back"), name=_("Granted quota ends"))
LAPSED = audit.action(
    "quota.lapsed", _("{name} lapsed: its time was over before it was decided"), name=_("A quota request lapses")
)
SYSTEM = Actor.system("quota")
TURN = "quotas.turn_request"


def due_requests() -> list[int]:
    """Ids of requests that time changes now."""
    due = QuotaRequest.objects.for_system().filter(due_at__lte=timezone.now())
    return list(due.order_by("due_at").values_list("pk", flat=True)[:100])


def turn(request: QuotaRequest, now: datetime) -> None:
    """Bring a request to where it must be at this time; any worker may do it twice."""
    try:
        if request.standing is State.APPROVED and request.starts_at <= now < request.ends_at:
            begin(request)
        if request.ends_at > now or request.standing.is_final:
            return
        if request.standing is State.ACTIVE:
            _end(request)
        elif request.standing is State.APPROVED:
            moves.move(request, State.ENDED, moves.Step(SYSTEM, ENDED, "ended"))
        else:
            _lapse(request)
    except moves.Stale:
        return


@transaction.atomic
def begin(request: QuotaRequest) -> None:
    """Raise the limits. Raises Stale."""
    moves.move(request, State.ACTIVE, moves.Step(SYSTEM, BEGAN, "began"))
    _change_limits(request, +1)


@transaction.atomic
def _end(request: QuotaRequest) -> None:
    moves.move(request, State.ENDED, moves.Step(SYSTEM, ENDED, "ended"))
    _change_limits(request, -1)
    told.of_decision(request, told.ENDED)


@transaction.atomic
def _lapse(request: QuotaRequest) -> None:
    moves.move(request, State.LAPSED, moves.Step(SYSTEM, LAPSED, "lapsed"))
    told.of_decision(request, told.LAPSED)


def _change_limits(request: QuotaRequest, sign: int) -> None:
    for item in request.items.select_related("allowance"):
        Allowance.objects.for_system().filter(pk=item.allowance_id).update(granted=F("granted") + sign * item.amount)
        limit_changed(request.tenant_id, item.allowance.pool)
