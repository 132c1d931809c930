"""The two steps of a decision: a team admin of the tenant, then a platform operator, and never who asked."""

from __future__ import annotations

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Denied, Permission
from apps.audit import services as audit
from apps.quotas import moves
from apps.quotas.domain.asking import InvalidRequest, Problem, Terms, problems_of, problems_of_offer, problems_of_reason
from apps.quotas.domain.states import STEPS, State
from apps.quotas.models import QuotaRequest, RequestItem
from apps.quotas.services import told
from apps.quotas.services.requests import AlreadyDecided, begin_if_due, move, target
from apps.quotas.services.terms import asked_terms, params_of

TEAM_APPROVED = audit.action(
    "quota.team-approved", _("{actor} approved {name} for the team"), name=_("Approve quota for the team")
)
APPROVED = audit.action(
    "quota.approved", _("{actor} approved {amounts} until {until} ({name})"), name=_("Approve quota"),
    refusal=_("{actor} was not allowed to approve {target}"),
)  # fmt: skip
REJECTED = audit.action("quota.rejected", _("{actor} rejected {name}"), name=_("Reject a quota request"))
OFFERED = audit.action(
    "quota.offered", _("{actor} offered {amounts} until {until} instead ({name})"), name=_("Make a counter-offer")
)

RIGHTS: dict[State, Permission] = {
    State.TEAM: Permission.QUOTA_DECIDE_TENANT,
    State.PLATFORM: Permission.QUOTA_DECIDE_PLATFORM,
}


@audit.use_case(APPROVED)
def approve(actor: Actor, request: QuotaRequest, *, seen: State, note: str = "") -> None:
    """Approve the step the page showed. Raises AlreadyDecided, Denied, InvalidRequest."""
    _require(actor, request, seen, note)
    if seen is State.TEAM:
        step = moves.Step(actor, TEAM_APPROVED, "team-approved", note.strip(), values={"team_by_id": actor.user_pk})
        move(request, State.PLATFORM, step)
        told.to_deciders(request)
        return
    values = {"platform_by_id": actor.user_pk or None}
    move(
        request,
        State.APPROVED,
        moves.Step(actor, APPROVED, "approved", note.strip(), params_of(asked_terms(request)), values),
    )
    begin_if_due(request)
    told.of_decision(request, told.APPROVED, actor.name)


@audit.use_case(REJECTED)
def reject(actor: Actor, request: QuotaRequest, *, seen: State, note: str) -> None:
    """Reject it, with the reason. Raises AlreadyDecided, Denied, InvalidRequest."""
    _require(actor, request, seen, note, needs_note=True)
    move(request, State.REJECTED, moves.Step(actor, REJECTED, "rejected", note.strip()))
    told.of_decision(request, told.REJECTED, actor.name)


@audit.use_case(OFFERED)
def offer(actor: Actor, request: QuotaRequest, *, seen: State, terms: Terms, note: str = "") -> None:
    """Offer other terms, at most what was asked for; the asker accepts or withdraws. Raises AlreadyDecided, Denied,
    InvalidRequest."""
    _require(actor, request, seen, note)
    if problems := problems_of(terms, timezone.now()) + problems_of_offer(terms, asked_terms(request)):
        raise InvalidRequest(problems)
    values = {
        "offered_starts_at": terms.starts_at, "offered_ends_at": terms.ends_at, "offered_by_id": actor.user_pk,
    }  # fmt: skip
    move(request, STEPS[seen], moves.Step(actor, OFFERED, "offered", note.strip(), params_of(terms), values))
    for item in request.items.select_related("allowance"):
        RequestItem.objects.filter(pk=item.pk).update(offered=terms.amounts.get(item.allowance.pool, 0))
    told.of_decision(request, told.OFFERED, actor.name)


def _require(actor: Actor, request: QuotaRequest, seen: State, note: str, *, needs_note: bool = False) -> None:
    right = RIGHTS.get(seen)
    if right is None:
        actor.require(Permission.QUOTA_DECIDE_PLATFORM, request.tenant_id, target=target(request))
        raise AlreadyDecided(request)
    actor.require(right, request.tenant_id, target=target(request))
    if request.standing is not seen:
        raise AlreadyDecided(request)
    if reason := why_not(actor, request):
        raise Denied(right, reason, tenant_id=request.tenant_id, target=target(request))
    problems = problems_of_reason(note) if note.strip() or needs_note else []
    if problems:
        raise InvalidRequest([Problem("note", problem.code, problem.params) for problem in problems])


def why_not(actor: Actor, request: QuotaRequest) -> Promise | None:
    """Why somebody with the right must leave this step to another; None if they need not."""
    if actor.user_pk == str(request.asker_id):
        return _("You asked for this yourself; somebody else decides.")
    if request.standing is State.PLATFORM and actor.user_pk == str(request.team_by_id):
        return _("You decided for the team; another platform operator decides for the platform.")
    return None


def may_decide(actor: Actor, request: QuotaRequest) -> bool:
    """Whether this person may decide the step the request waits at."""
    right = RIGHTS.get(request.standing)
    return right is not None and actor.may(right, request.tenant_id) and why_not(actor, request) is None


def deciders(request: QuotaRequest) -> list[str]:
    """The names of those who can decide the step it waits at."""
    pks = told.decider_pks(request)
    return sorted(accounts.audit_names(f"user:{pk}" for pk in pks).values())
