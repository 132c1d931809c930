"""The lists: tenants with their places, and requests for new ones; newest first, by key."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts.types import Permission
from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services import words

PAGE = 50
OPEN_SHOWN = 5


@require_GET
def tenants(request: HttpRequest) -> HttpResponse:
    """Every place this person may see, and the requests that are open."""
    actor = request.actor
    found = Placement.objects.visible_to(actor).select_related("tenant", "cluster")
    if named := request.GET.get("q", "")[:80]:
        found = found.filter(Q(tenant__name__icontains=named) | Q(tenant__slug__icontains=named))
    if slug := request.GET.get("tenant"):
        found = found.filter(tenant__slug=slug)
    rows, page = _page(request, found, {"q": named, "tenant": slug})
    waiting = list(_requests(actor).open().order_by("-pk")[: OPEN_SHOWN + 1])
    context = {
        "rows": [(place, words.look_of(place)) for place in rows],
        "page": page,
        "filtered": bool(named or slug),
        "waiting": [(one, words.REQUESTS[one.state]) for one in waiting[:OPEN_SHOWN]],
        "more_waiting": len(waiting) > OPEN_SHOWN,
        "may_ask": actor.may(Permission.TENANT_ASK),
        "may_create": actor.may(Permission.TENANT_DECIDE),
    }
    return render(request, "tenants/list.html", context)


@require_GET
def requests(request: HttpRequest) -> HttpResponse:
    """Every request this person may see."""
    rows, page = _page(request, _requests(request.actor), {})
    context = {
        "rows": [(one, words.REQUESTS[one.state]) for one in rows],
        "page": page,
        "may_ask": request.actor.may(Permission.TENANT_ASK),
        "may_create": request.actor.may(Permission.TENANT_DECIDE),
    }
    return render(request, "tenants/requests.html", context)


def _requests(actor: Any) -> Any:
    return TenantRequest.objects.visible_to(actor).select_related("cluster", "asked_by")


def _page(request: HttpRequest, found: QuerySet[Any], filters: dict[str, Any]) -> tuple[list[Any], dict[str, str]]:
    """Rows newest first, and the queries that lead to older and newer ones ("" for none)."""
    before, after = (_number(request.GET.get(key, "")) for key in ("before", "after"))
    if after:
        rows = list(found.filter(pk__gt=after).order_by("pk")[: PAGE + 1])
        more_older, more_newer = True, len(rows) > PAGE
        rows = rows[:PAGE][::-1]
    else:
        rows = list((found.filter(pk__lt=before) if before else found).order_by("-pk")[: PAGE + 1])
        more_older, more_newer = len(rows) > PAGE, bool(before)
        rows = rows[:PAGE]
    kept = urlencode({key: value for key, value in filters.items() if value})
    kept = f"{kept}&" if kept else ""
    older = f"{kept}before={rows[-1].pk}" if rows and more_older else ""
    newer = f"{kept}after={rows[0].pk}" if rows and more_newer else ""
    return rows, {"older": older, "newer": newer}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
