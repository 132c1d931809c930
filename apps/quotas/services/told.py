"""Who is told what about requests, and what of them waits for whom."""

from __future__ import annotations

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.notices import services as notices
from apps.quotas.domain.states import OFFERS, State
from apps.quotas.models import QuotaRequest
from apps.quotas.services.reading import titles_of
from apps.quotas.services.terms import asked_terms, params_of
from apps.quotas.services.words import moment

_UNTIL = {"until": moment}
ASKED = notices.kind(
    "quota.asked", gettext_lazy("{who} of {tenant} asks for {amounts} until {until}"),
    name=gettext_lazy("Quota is asked for"), icon="gauge", words=_UNTIL,
)  # fmt: skip
APPROVED = notices.kind(
    "quota.approved", gettext_lazy("{who} approved {amounts} until {until} for {tenant}"),
    name=gettext_lazy("Quota is approved"), icon="check", tone="green", words=_UNTIL,
)  # fmt: skip
REJECTED = notices.kind(
    "quota.rejected", gettext_lazy("{who} rejected {amounts} until {until} for {tenant}"),
    name=gettext_lazy("Quota is rejected"), icon="ban", tone="red", words=_UNTIL,
)  # fmt: skip
OFFERED = notices.kind(
    "quota.offered", gettext_lazy("{who} made a counter-offer to {request}: your answer is awaited"),
    name=gettext_lazy("A counter-offer is made"), icon="arrows-left-right", tone="amber",
)  # fmt: skip
ACCEPTED = notices.kind(
    "quota.accepted", gettext_lazy("{who} accepted your counter-offer to {request}"),
    name=gettext_lazy("A counter-offer is accepted"), icon="check", tone="green",
)  # fmt: skip
ENDED = notices.kind(
    "quota.ended", gettext_lazy("{amounts} of {tenant} ended and was given back"),
    name=gettext_lazy("Granted quota ends"), icon="calendar-off", tone="grey", words=_UNTIL,
)  # fmt: skip
LAPSED = notices.kind(
    "quota.lapsed", gettext_lazy("{request} lapsed: its time was over before it was decided"),
    name=gettext_lazy("A quota request lapses"), icon="calendar-off", tone="grey",
)  # fmt: skip

SHOWN = 20


def decider_pks(request: QuotaRequest) -> list[str]:
    """Those who can decide the step it waits at: with the right, and neither who asked nor who decided before."""
    match request.standing:
        case State.TEAM:
            people = accounts.people_with(Permission.QUOTA_DECIDE_TENANT, request.tenant_id)
        case State.PLATFORM:
            people = accounts.people_with(Permission.QUOTA_DECIDE_PLATFORM, None)
        case _:
            return []
    return [pk for pk in people if pk not in (str(request.asker_id), str(request.team_by_id))]


def to_deciders(request: QuotaRequest) -> None:
    _tell(decider_pks(request), ASKED, request, request.asker.name)


def to_offerer(request: QuotaRequest) -> None:
    _tell([str(request.offered_by_id)], ACCEPTED, request, request.asker.name)


def of_decision(request: QuotaRequest, kind: notices.Kind, who: str = "") -> None:
    """Tell who asked."""
    _tell([str(request.asker_id)], kind, request, who)


def _tell(people: list[str], kind: notices.Kind, request: QuotaRequest, who: str) -> None:
    link = reverse("quotas:request", args=[request.pk])
    params = params_of(asked_terms(request)) | {"amounts": titles_of([request])[request.pk]}
    notices.tell(
        people, kind, link=link, tenant_id=request.tenant_id, who=who, tenant=request.tenant.name,
        request=str(request), **params,
    )  # fmt: skip


def waiting_for(actor: Actor) -> list[notices.Waiting]:
    """Requests that wait for this person's decision or answer."""
    if not actor.user_pk:
        return []
    of_teams = actor.tenants_where(Permission.QUOTA_DECIDE_TENANT) or frozenset()
    mine = Q(state=State.TEAM, tenant_id__in=of_teams)
    if actor.may(Permission.QUOTA_DECIDE_PLATFORM):
        mine |= Q(state=State.PLATFORM) & ~Q(team_by_id=actor.user_pk)
    mine &= ~Q(asker_id=actor.user_pk)
    answers = Q(state__in=OFFERS, asker_id=actor.user_pk)
    found = QuotaRequest.objects.visible_to(actor).filter(mine | answers).select_related("tenant", "asker")
    found = found.order_by("moved_at")
    titles = titles_of(found[:SHOWN])
    return notices.first(found, SHOWN, lambda request: _waiting(request, titles.get(request.pk, "")))


def _waiting(request: QuotaRequest, amounts: str) -> notices.Waiting:
    if request.standing.is_offer:
        text = _("A counter-offer to your request {request} awaits your answer").format(request=request)
        act, icon = _("Answer"), "arrows-left-right"
    else:
        text = _("{who} asks for {amounts} for {tenant}").format(
            who=request.asker.name, amounts=amounts, tenant=request.tenant.name
        )
        act, icon = _("Review request"), "gauge"
    return notices.Waiting(
        text, reverse("quotas:request", args=[request.pk]), request.moved_at, note=request.reason[:120], act=act,
        icon=icon, tenant_id=request.tenant_id,
    )  # fmt: skip
