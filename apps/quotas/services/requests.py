"""Asking for quota, and what the asker does with a request afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Denied, Permission
from apps.audit import services as audit
from apps.quotas import moves
from apps.quotas.domain.asking import InvalidRequest, Problem, Terms, problems_of, problems_of_reason
from apps.quotas.domain.states import STEPS, State
from apps.quotas.models import Allowance, QuotaRequest, RequestItem
from apps.quotas.services import told
from apps.quotas.services.terms import offered_terms, params_of
from apps.quotas.services.turning import begin

ASKED = audit.action("quota.asked", _("{actor} asked for {amounts} until {until} ({name})"), name=_("Ask for quota"))
ACCEPTED = audit.action(
    "quota.accepted", _("{actor} accepted the counter-offer of {amounts} until {until} ({name})"),
    name=_("Accept a counter-offer"),
)  # fmt: skip
WITHDRAWN = audit.action("quota.withdrawn", _("{actor} withdrew {name}"), name=_("Withdraw a quota request"))
COMMENTED = audit.action("quota.commented", _("{actor} commented on {name}"), name=_("Comment on a quota request"))


class AlreadyDecided(Exception):
    """The request is not where the page showed it any more; `by` names who moved it, "" for time itself."""

    def __init__(self, request: QuotaRequest) -> None:
        super().__init__(request.pk)
        request.refresh_from_db()
        self.request = request
        moved = request.events.exclude(kind="comment").select_related("actor").last()
        self.by = moved.actor.name if moved and moved.actor else ""


@dataclass(frozen=True)
class Ask:
    """What somebody asks for. The same `key` again is the same request."""

    tenant_id: int
    terms: Terms
    reason: str
    key: str = ""


@audit.use_case(ASKED)
def ask(actor: Actor, *, wish: Ask) -> QuotaRequest:
    """Ask for more of pools the tenant has, for a time. Raises InvalidRequest.

    A team admin's own request is the team's word already: it goes straight to the platform.
    """
    actor.require(Permission.QUOTA_ASK, wish.tenant_id, target=f"tenant:{wish.tenant_id}")
    if wish.key and (known := _known(actor, wish.key)):
        return known
    found = {row.pool: row for row in Allowance.objects.for_system().filter(tenant_id=wish.tenant_id)}
    unknown = [Problem("amounts", "unknown-pool", {"pool": str(p)}) for p in wish.terms.amounts if p not in found]
    problems = unknown + problems_of(wish.terms, timezone.now()) + problems_of_reason(wish.reason)
    if problems:
        raise InvalidRequest(problems)
    by_admin = actor.may(Permission.QUOTA_DECIDE_TENANT, wish.tenant_id)
    request = QuotaRequest(
        tenant_id=wish.tenant_id,
        asker_id=actor.user_pk,
        reason=wish.reason.strip(),
        starts_at=wish.terms.starts_at,
        ends_at=wish.terms.ends_at,
        due_at=wish.terms.ends_at,
        state=State.PLATFORM if by_admin else State.TEAM,
        team_by_id=actor.user_pk if by_admin else None,
        key=wish.key,
    )
    try:
        with transaction.atomic():
            request.save(force_insert=True)
    except IntegrityError:
        if known := _known(actor, wish.key):  # the other press of the same button
            return known
        raise
    RequestItem.objects.bulk_create(
        RequestItem(request=request, allowance=found[pool], amount=amount)
        for pool, amount in wish.terms.amounts.items()
        if amount
    )
    moves.note(request, moves.Step(actor, ASKED, "asked", wish.reason.strip(), params_of(wish.terms)))
    told.to_deciders(request)
    return request


def _known(actor: Actor, key: str) -> QuotaRequest | None:
    return QuotaRequest.objects.for_system().filter(asker__id=actor.user_pk, key=key).first() if key else None


@audit.use_case(ACCEPTED)
def accept(actor: Actor, request: QuotaRequest) -> None:
    """Take what was offered instead: that decides the step of who offered it. Raises AlreadyDecided."""
    _require_asker(actor, request)
    step = next((step for step, offer in STEPS.items() if offer is request.standing), None)
    if step is None:
        raise AlreadyDecided(request)
    offer = offered_terms(request)
    by = "team_by_id" if step is State.TEAM else "platform_by_id"
    values = {"starts_at": offer.starts_at, "ends_at": offer.ends_at, by: request.offered_by_id}
    made = moves.Step(actor, ACCEPTED, "accepted", params=params_of(offer), values=values)
    move(request, State.PLATFORM if step is State.TEAM else State.APPROVED, made)
    for item in request.items.all():
        RequestItem.objects.filter(pk=item.pk).update(amount=item.offered or 0)
    if request.standing is State.PLATFORM:
        told.to_deciders(request)
    else:
        begin_if_due(request)
    told.to_offerer(request)


@audit.use_case(WITHDRAWN)
def withdraw(actor: Actor, request: QuotaRequest) -> None:
    """Take a request back, as long as it has not begun. Raises AlreadyDecided."""
    _require_asker(actor, request)
    move(request, State.WITHDRAWN, moves.Step(actor, WITHDRAWN, "withdrawn"))


@audit.use_case(COMMENTED)
def comment(actor: Actor, request: QuotaRequest, text: str) -> None:
    """Say something to those who ask and decide. Raises InvalidRequest."""
    if not may_comment(actor, request):
        actor.require(Permission.QUOTA_ASK, request.tenant_id, target=target(request))
    if problems := [Problem("text", problem.code, problem.params) for problem in problems_of_reason(text)]:
        raise InvalidRequest(problems)
    moves.note(request, moves.Step(actor, COMMENTED, "comment", text.strip()))


def may_comment(actor: Actor, request: QuotaRequest) -> bool:
    """Whoever may ask or decide here."""
    rights = (Permission.QUOTA_ASK, Permission.QUOTA_DECIDE_TENANT, Permission.QUOTA_DECIDE_PLATFORM)
    return any(actor.may(right, request.tenant_id) for right in rights)


def target(request: QuotaRequest) -> str:
    return f"quota-request:{request.pk}"


def _require_asker(actor: Actor, request: QuotaRequest) -> None:
    actor.require(Permission.QUOTA_ASK, request.tenant_id, target=target(request))
    if actor.user_pk != str(request.asker_id):
        raise Denied(
            Permission.QUOTA_ASK, _("Only who asked for this may do that."), tenant_id=request.tenant_id,
            target=target(request),
        )  # fmt: skip


def move(request: QuotaRequest, to: State, step: moves.Step) -> None:
    """`moves.move` in people's words. Raises AlreadyDecided."""
    try:
        moves.move(request, to, step)
    except (moves.Stale, ValueError) as error:
        raise AlreadyDecided(request) from error


def begin_if_due(request: QuotaRequest) -> None:
    """What was approved after its begin begins at once."""
    if request.starts_at <= timezone.now() < request.ends_at:
        begin(request)
