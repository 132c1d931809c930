"""Home, and help. Nothing of its own: it only reads."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from apps.accounts.types import Actor, Permission
from apps.jobs.services import Job, overview
from apps.jobs.services.shapes import shapes
from apps.notices import services as notices
from apps.portal.services.recent import recent_of
from apps.quotas import services as quotas
from apps.serving.services import Deployment
from apps.serving.services.messages import LOOKS, PHASES

RUNNING = 8
WAITING = 12
NEWS = 4
CLUSTERS = 3
SERVED = 5
TENANTS = 4


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """What needs me, what changed, what runs, what is left to my tenants; `?part=live` is what changes by itself."""
    actor: Actor = request.actor
    slug = request.GET.get("tenant", "")[:30]
    seen = Job.objects.visible_to(actor).select_related("tenant", "owner", "placement__cluster")
    seen = seen.filter(tenant__slug=slug) if slug else seen
    alive = list(seen.unfinished().order_by("-pk")[: RUNNING + 1])
    going = overview.going_of(alive[:RUNNING])
    uses = overview.use_seen(actor, slug)
    waiting = _waiting(actor, {use.place.tenant_id for use in uses} if slug else None)
    pools = quotas.pools_seen(actor, slug)[:TENANTS]
    context: dict[str, Any] = {
        "greeting": _greeting().format(name=actor.name),
        "rows": [(job, going[job.pk]) for job in alive[:RUNNING]],
        "more": len(alive) > RUNNING,
        "uses": [use for use in uses if use.place.tenant_id not in {each.tenant_id for each in pools}][:TENANTS],
        "pools": pools,
        "chances": (chances := overview.chances_of(uses)[:CLUSTERS]),
        "best": next((each for each in chances if each.gpus), None),
        "used": sum(use.used for use in uses),
        "running": sum(use.running for use in uses),
        "waiting": waiting[:WAITING],
        "folded": waiting[WAITING:],
        "needs": len(waiting),
        "not_all": any(each.and_more for each in waiting),
        "news": notices.lines(notices.inbox(actor, notices.Wish(unread=True, tenant=slug)).order_by("-pk")[:NEWS]),
        "served": _served(actor, slug),
        "recent": recent_of(actor, slug),
        "may_submit": actor.may(Permission.JOB_SUBMIT),
        "shapes": shapes(),
        "may_deploy": actor.may(Permission.DEPLOYMENT_CREATE),
    }
    context["empty"] = not any(context[key] for key in ("rows", "recent", "needs", "news", "served"))
    return render(
        request, "portal/home.html#live" if request.GET.get("part") == "live" else "portal/home.html", context
    )


def _waiting(actor: Actor, tenant_ids: set[int] | None) -> list[notices.Waiting]:
    """What waits for them, of one tenant and of none where one is chosen."""
    found = notices.waiting_for(actor)
    return found if tenant_ids is None else [each for each in found if each.tenant_id in {None, *tenant_ids}]


def _served(actor: Actor, slug: str) -> list[tuple[Deployment, tuple[str, str], object]]:
    """The newest deployments that are meant to answer, each with the look and the word of its phase."""
    found = Deployment.objects.visible_to(actor).filter(wanted="run").select_related("tenant").order_by("-pk")
    found = found.filter(tenant__slug=slug) if slug else found
    return [(each, LOOKS[each.state], PHASES[each.state]) for each in found[:SERVED]]


def _greeting() -> str:
    hour = timezone.localtime().hour
    if hour < 5 or hour >= 18:
        return _("Good evening, {name}")
    return _("Good morning, {name}") if hour < 12 else _("Good afternoon, {name}")


@require_GET
def help_page(request: HttpRequest) -> HttpResponse:
    """Shortcuts and the words the portal uses; also as a dialog, on `?`."""
    return render(request, "portal/help.html#card" if request.htmx else "portal/help.html")
