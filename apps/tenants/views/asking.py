"""Asking for a tenant, and the page of a request."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.types import Permission
from apps.clusters import services as clusters
from apps.tenants import services
from apps.tenants.forms import TAKEN, AskForm, DecideForm
from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services import words


@require_http_methods(["GET", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """The form. Who may decide has the tenant at once, others a request that waits."""
    actor = request.actor
    actor.require(Permission.TENANT_ASK, target="tenant-requests")
    found = clusters.visible_to(actor).used()
    form = AskForm(found.open(), request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            made = services.ask_tenant(actor, form.asked())
        except services.SlugTaken:
            form.add_error("slug", TAKEN)
        except clusters.Closed as closed:
            form.add_error("cluster", closed.text)
        else:
            if made.is_open:
                messages.success(request, _("Asked. Platform operators have been told."))
                return redirect("tenants:request", made.pk)
            return redirect("tenants:detail", made.slug)
    context = {
        "form": form,
        "rooms": [(cluster, services.impact_of(cluster)) for cluster in found],
        "may_create": actor.may(Permission.TENANT_DECIDE),
    }
    return render(request, "tenants/ask.html", context, status=422 if form.is_bound else 200)


def _request(request: HttpRequest, request_id: int) -> TenantRequest:
    visible = TenantRequest.objects.visible_to(request.actor)
    return get_object_or_404(visible.select_related("cluster", "asked_by", "decided_by", "tenant"), pk=request_id)


@require_GET
def request_page(request: HttpRequest, request_id: int) -> HttpResponse:
    """What is asked, what it means for the cluster, and the decision; `?part=state` is what changes by itself."""
    asked = _request(request, request_id)
    return _render(request, asked, DecideForm(initial={"gpus": asked.gpus}), part=request.GET.get("part") == "state")


def _render(
    request: HttpRequest, asked: TenantRequest, form: DecideForm, *, part: bool = False, status: int = 200
) -> HttpResponse:
    own = str(asked.asked_by_id) == request.actor.user_pk
    context = {
        "asked": asked,
        "look": words.REQUESTS[asked.state],
        "impact": services.impact_of(asked.cluster),
        "form": form,
        "may_decide": asked.is_open and not own and request.actor.may(Permission.TENANT_DECIDE),
        "own": own,
        # Who asked for a tenant need not be in it.
        "is_theirs": Placement.objects.visible_to(request.actor).filter(tenant__id=asked.tenant_id).exists(),
    }
    return render(request, "tenants/request.html#live" if part else "tenants/request.html", context, status=status)


@require_POST
def decide(request: HttpRequest, request_id: int) -> HttpResponse:
    """Approve or reject."""
    asked = _request(request, request_id)
    form = DecideForm(request.POST)
    if not form.is_valid():
        request.actor.require(Permission.TENANT_DECIDE, target=f"tenant-request:{asked.pk}")
        return _render(request, asked, form, status=422)
    try:
        asked = services.decide(request.actor, asked, form.said())
    except services.AlreadyDecided as decided:
        messages.warning(request, _late(decided.request))
    except clusters.Closed as closed:
        messages.warning(request, closed.text)
    else:
        said = _("{name} is approved.") if asked.state == asked.State.APPROVED else _("{name} is rejected.")
        messages.success(request, said.format(name=asked.name))
    return redirect("tenants:request", asked.pk)


@require_POST
def withdraw(request: HttpRequest, request_id: int) -> HttpResponse:
    """Take back what one asked for."""
    asked = _request(request, request_id)
    try:
        asked = services.withdraw(request.actor, asked)
    except services.AlreadyDecided as decided:
        messages.warning(request, _late(decided.request))
    else:
        messages.success(request, _("The request for {name} is withdrawn.").format(name=asked.name))
    return redirect("tenants:request", asked.pk)


def _late(decided: TenantRequest) -> str:
    """What to say to somebody who came second."""
    word, who = words.REQUESTS[decided.state][2], decided.decided_by.name if decided.decided_by else "–"
    return _("Nothing was changed: {who} has decided already ({decision}).").format(who=who, decision=word)
