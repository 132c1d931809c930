"""A tenant's quota, the requests for more, and what people do with them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.quotas import services
from apps.quotas.domain.states import OPEN, State
from apps.quotas.forms import AskForm, NoteForm, OfferForm, first_times, times
from apps.quotas.models import Allowance, QuotaRequest
from apps.quotas.services import terms, words
from apps.quotas.services.reading import named

LISTING = accounts.Listing(size=20)
SHOWN = {"open": OPEN, "granted": (State.APPROVED, State.ACTIVE)}
"""The list's filters: what waits for somebody, what was granted and has not ended."""


@dataclass(frozen=True)
class Look:
    """A state or a step as it is shown."""

    tone: str
    icon: str
    word: object


@dataclass(frozen=True)
class Row:
    request: QuotaRequest
    title: str

    @property
    def look(self) -> Look:
        return _look(self.request)


def _look(found: QuotaRequest) -> Look:
    return Look(*words.LOOKS[found.standing], words.STATES[found.standing])


@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """The pools of my tenants and the requests for more; `?part=live` is what changes by itself."""
    actor = request.actor
    slug = request.GET.get("tenant", "")
    page = _page(request, slug)
    groups = services.pools_seen(actor, slug)
    context = {
        "groups": groups,
        "more_groups": len(groups) == services.MOST_TENANTS,
        "page": page,
        "state": request.GET.get("state", ""),
        "filtered": request.GET.get("state", "") in SHOWN,
        "may_ask": any(actor.may(Permission.QUOTA_ASK, tenant.pk) for tenant in accounts.tenants_of(actor)),
    }
    return render(
        request, "quotas/list.html#live" if request.GET.get("part") == "live" else "quotas/list.html", context
    )


def _page(request: HttpRequest, slug: str) -> accounts.Page[Row]:
    found = QuotaRequest.objects.visible_to(request.actor).select_related("tenant", "asker")
    found = found.filter(tenant__slug=slug) if slug else found
    found = found.filter(state__in=SHOWN[state]) if (state := request.GET.get("state", "")) in SHOWN else found
    page = LISTING.page(found, request.GET)
    titles = services.titles_of(page.rows)
    return page.of([Row(one, titles.get(one.pk, "")) for one in page.rows])


@never_cache
@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """The form; what was typed stays typed until it is right."""
    actor = request.actor
    actor.require(Permission.QUOTA_ASK, target="quota")
    tenants = [one for one in accounts.tenants_of(actor) if actor.may(Permission.QUOTA_ASK, one.pk)]
    slug = request.POST.get("tenant") or request.GET.get("tenant", "")
    tenant = next((one for one in tenants if one.slug == slug), tenants[0])
    pools = named(Allowance.objects.visible_to(actor).filter(tenant_id=tenant.pk).order_by("cluster", "resource"))
    form = AskForm(pools, request.POST or None, {**first_times(), "key": uuid.uuid4().hex})
    status = 200
    if request.method == "POST":
        if typed := form.terms():
            wish = services.Ask(tenant.pk, typed, form.cleaned_data["reason"], form.cleaned_data["key"])
            try:
                made = services.ask(actor, wish=wish)
                messages.success(request, _("Your request {request} is on its way.").format(request=made))
                return redirect("quotas:request", made.pk)
            except services.InvalidRequest as invalid:
                form.show(invalid.problems)
        status = 422
    straight = actor.may(Permission.QUOTA_DECIDE_TENANT, tenant.pk)
    context = {"form": form, "tenants": tenants, "tenant": tenant, "pools": pools, "straight": straight}
    return render(request, "quotas/ask.html", context, status=status)


def _request(request: HttpRequest, pk: int) -> QuotaRequest:
    visible = QuotaRequest.objects.visible_to(request.actor)
    return get_object_or_404(visible.select_related("tenant", "asker", "offered_by", "team_by", "platform_by"), pk=pk)


@require_GET
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """The request with its impact and its history; `?part=live` is what changes by itself."""
    found = _request(request, pk)
    part = "quotas/request.html#live" if request.GET.get("part") == "live" else "quotas/request.html"
    return render(request, part, _context(request, found))


def _context(request: HttpRequest, found: QuotaRequest) -> dict[str, Any]:
    actor, events = request.actor, list(found.events.select_related("actor"))
    impacts = services.impact_of(found)
    products = {terms.named(impact.use.pool): impact.name.product for impact in impacts}
    right = services.RIGHTS.get(found.standing)
    return {
        "asked": found,
        "title": services.titles_of([found]).get(found.pk, ""),
        "impacts": impacts,
        "look": _look(found),
        "steps": [
            (event, Look(*words.STEPS[event.kind][:2], words.step_text(event, products)))
            for event in events
            if event.kind != "comment"
        ],
        "comments": [event for event in events if event.kind == "comment"],
        "deciders": services.deciders(found),
        "may_decide": services.may_decide(actor, found),
        "why_not": services.why_not(actor, found) if right and actor.may(right, found.tenant_id) else None,
        "is_asker": actor.user_pk == str(found.asker_id) and actor.may(Permission.QUOTA_ASK, found.tenant_id),
        "may_comment": services.may_comment(actor, found),
    }


def _seen(request: HttpRequest, found: QuotaRequest) -> State:
    """The step the page showed; what is sent by hand and is none stands for the one it waits at."""
    sent = request.POST.get("seen", "")
    return State(sent) if sent in set(State) else found.standing


def _require_right(request: HttpRequest, found: QuotaRequest) -> None:
    """Only who may decide is asked how; what a POST then does, its use-case judges and records."""
    if request.method == "GET":
        right = services.RIGHTS.get(found.standing, Permission.QUOTA_DECIDE_PLATFORM)
        request.actor.require(right, found.tenant_id, target=f"quota-request:{found.pk}")


def _act(request: HttpRequest, found: QuotaRequest, said: str, act: Callable[[], None]) -> HttpResponse:
    """Do it and go back to the request; somebody who was quicker is named. Raises InvalidRequest."""
    try:
        act()
        messages.success(request, said)
    except services.AlreadyDecided as late:
        messages.warning(request, services.late_text(late))
    return redirect("quotas:request", found.pk)


@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    found = _request(request, pk)
    seen, note = _seen(request, found), request.POST.get("note", "")
    said = _("{request} is approved.").format(request=found)
    try:
        return _act(request, found, said, lambda: services.approve(request.actor, found, seen=seen, note=note))
    except services.InvalidRequest as invalid:
        messages.error(request, services.problem_text(invalid.problems[0]))
        return redirect("quotas:request", pk)


@never_cache
@require_http_methods(["GET", "POST"])
def reject(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks for the reason, POST rejects."""
    found = _request(request, pk)
    _require_right(request, found)
    form = NoteForm(request.POST or None)
    if request.method == "POST":
        seen, note = _seen(request, found), request.POST.get("note", "")
        said = _("{request} is rejected.").format(request=found)
        try:
            return _act(request, found, said, lambda: services.reject(request.actor, found, seen=seen, note=note))
        except services.InvalidRequest as invalid:
            for problem in invalid.problems:
                form.add_error("note", services.problem_text(problem))
    return _question(request, "quotas/reject.html", found, form)


@never_cache
@require_http_methods(["GET", "POST"])
def offer(request: HttpRequest, pk: int) -> HttpResponse:
    """GET shows what was asked, to be changed; POST offers that instead."""
    found = _request(request, pk)
    _require_right(request, found)
    items = list(found.items.select_related("allowance"))
    first = {name: request.GET.get(name, str(item.amount)) for item in items if (name := f"amount_{item.allowance_id}")}
    pools = named([item.allowance for item in items])
    form = OfferForm(pools, request.POST or None, {**first, **times(found.starts_at, found.ends_at)})
    if request.method == "POST" and (typed := form.terms()):
        seen, note = _seen(request, found), form.cleaned_data["note"]
        said = _("{name} is asked whether that will do.").format(name=found.asker.name)
        try:
            return _act(
                request, found, said,
                lambda: services.offer(request.actor, found, seen=seen, terms=typed, note=note),
            )  # fmt: skip
        except services.InvalidRequest as invalid:
            form.show(invalid.problems)
    return _question(request, "quotas/offer.html", found, form)


def _question(request: HttpRequest, template: str, found: QuotaRequest, form: Any) -> HttpResponse:
    context = {"asked": found, "form": form, "title": services.titles_of([found]).get(found.pk, "")}
    status = 422 if request.method == "POST" else 200
    return render(request, f"{template}#question" if request.htmx else template, context, status=status)


@require_POST
def accept(request: HttpRequest, pk: int) -> HttpResponse:
    found = _request(request, pk)
    return _act(request, found, _("You accepted the offer."), lambda: services.accept(request.actor, found))


@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    found = _request(request, pk)
    said = _("{request} is withdrawn.").format(request=found)
    return _act(request, found, said, lambda: services.withdraw(request.actor, found))


@require_POST
def comment(request: HttpRequest, pk: int) -> HttpResponse:
    found = _request(request, pk)
    text = request.POST.get("text", "")
    try:
        services.comment(request.actor, found, text)
    except services.InvalidRequest as invalid:
        wrong = {"typed": text, "wrong": services.problem_text(invalid.problems[0])}
        return render(request, "quotas/request.html", _context(request, found) | wrong, status=422)
    return redirect(f"{reverse('quotas:request', args=[pk])}#comments")
