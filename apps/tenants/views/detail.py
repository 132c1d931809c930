"""The page of one tenant: its places step by step, what its pods may reach, who is in it; and its buttons."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts import services as accounts
from apps.accounts.types import ROLE_NAMES, Permission, Role
from apps.quotas import services as quotas
from apps.tenants import services
from apps.tenants.domain.drift import APPLIED, DONE, Found
from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services import words

MEMBERS = accounts.Listing("members", key="place", rising=True, text=True, size=20)


@dataclass(frozen=True)
class Step:
    """A step as a line of the page."""

    found: Found
    title: Promise
    purpose: Promise
    look: words.Look


@dataclass(frozen=True)
class Place:
    """A place as the page shows it. `good` of its steps are as they should be."""

    placement: Placement
    look: words.Look
    steps: list[Step]
    blockers: list[services.Blocker]

    @property
    def good(self) -> int:
        return sum(step.found.state in (APPLIED, DONE) for step in self.steps)

    @property
    def off(self) -> list[Step]:
        return [step for step in self.steps if step.found.is_off]


def _places(request: HttpRequest, slug: str) -> list[Placement]:
    visible = Placement.objects.visible_to(request.actor).select_related("tenant", "cluster")
    found = list(visible.filter(tenant__slug=slug).order_by("pk"))
    if not found:
        raise Http404
    return found


def _place(request: HttpRequest, slug: str, cluster: str) -> Placement:
    visible = Placement.objects.visible_to(request.actor).select_related("tenant", "cluster")
    return get_object_or_404(visible, tenant__slug=slug, cluster__slug=cluster)


def _shown(placement: Placement) -> Place:
    steps = [Step(one, *words.STEPS[one.key], words.FOUND[one.state]) for one in placement.found]
    leaving = placement.state == Placement.State.LEAVING
    blockers = services.blockers_of(placement) if leaving else []
    return Place(placement, words.look_of(placement), steps, blockers)


@require_GET
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    """The page; `?part=live` is what of it changes by itself."""
    places = [_shown(placement) for placement in _places(request, slug)]
    tenant, actor = places[0].placement.tenant, request.actor
    named = accounts.searched(request.GET, "member")
    everybody = accounts.members_of(tenant.pk)
    members = MEMBERS.page(accounts.members_of(tenant.pk, named), request.GET)
    groups = accounts.groups_of_tenant(slug)
    requests = TenantRequest.objects.visible_to(actor).filter(slug=slug).select_related("asked_by").order_by("-pk")
    context = {
        "tenant": tenant,
        "places": places,
        "busy": any(place.placement.is_busy for place in places),
        "stands": any(place.placement.is_standing for place in places),
        "uses": [use for use in quotas.uses([tenant.pk]) if use.limit or use.held],
        "may_repair": actor.may(Permission.TENANT_REPAIR, tenant.pk),
        "may_remove": actor.may(Permission.TENANT_REMOVE, tenant.pk),
        "reach": services.reach(),
        "named": named,
        "members": [(member, ROLE_NAMES[Role(member.role)]) for member in members.rows],
        "members_page": members,
        "member_count": everybody.count(),
        "groups": [(group, ROLE_NAMES[role]) for role, group in groups.items()],
        "requests": [(one, words.REQUESTS[one.state]) for one in requests[:3]],
        "is_demo": settings.DEMO,
    }
    part = request.GET.get("part") == "live"
    return render(request, "tenants/detail.html#live" if part else "tenants/detail.html", context)


@require_POST
def restore(request: HttpRequest, slug: str, cluster: str) -> HttpResponse:
    """Apply everything once more."""
    placement = _place(request, slug, cluster)
    try:
        services.restore(request.actor, placement=placement)
        messages.success(request, _("Everything is being applied once more."))
    except services.NotStanding:
        messages.warning(request, _("Nothing was changed: the tenant is being removed from this cluster."))
    return redirect("tenants:detail", slug)


@require_POST
def look(request: HttpRequest, slug: str, cluster: str) -> HttpResponse:
    """Compare now."""
    services.look_again(request.actor, placement=_place(request, slug, cluster))
    messages.success(request, _("The cluster is being compared."))
    return redirect("tenants:detail", slug)


@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, slug: str, cluster: str) -> HttpResponse:
    """GET says what stands in the way, else what will be gone; POST does it."""
    placement = _place(request, slug, cluster)
    request.actor.require(Permission.TENANT_REMOVE, placement.tenant_id, target=f"tenant:{placement.tenant_id}")
    wrong, status = False, 200
    if request.method == "POST":
        try:
            services.remove(request.actor, placement=placement, typed=request.POST.get("name", ""))
            messages.success(request, _("{name} is being removed.").format(name=placement.tenant.name))
            return redirect("tenants:detail", slug)
        except services.NotStanding:
            messages.warning(request, _("Its removal has begun already."))
            return redirect("tenants:detail", slug)
        except services.WrongName:
            wrong, status = True, 422
        except services.Blocked:
            status = 409
    context = {"placement": placement, "blockers": services.blockers_of(placement), "wrong": wrong}
    return render(request, "tenants/remove.html", context, status=status)
