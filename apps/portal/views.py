"""Home, and help. Nothing of its own: it only reads."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from apps.accounts.types import Actor, Permission
from apps.jobs.services import Draft, Job, overview

RUNNING = 10
RECENT = 6
CLUSTERS = 3


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """What needs me, what runs, what is left to my tenants; `?part=live` is what changes by itself."""
    actor: Actor = request.actor
    seen = Job.objects.visible_to(actor).select_related("tenant", "owner", "placement__cluster")
    slug = request.GET.get("tenant", "")
    if slug:
        seen = seen.filter(tenant__slug=slug)
    alive = list(seen.unfinished().order_by("-pk")[: RUNNING + 1])
    going = overview.going_of(alive[:RUNNING])
    uses = overview.use_seen(actor, slug)
    drafts = list(_drafts(actor, slug)[:5])
    stuck = overview.stuck_jobs(actor, slug)
    context: dict[str, Any] = {
        "greeting": _greeting().format(name=actor.name),
        "rows": [(job, going[job.pk]) for job in alive[:RUNNING]],
        "more": len(alive) > RUNNING,
        "uses": uses,
        "rooms": overview.rooms_of(uses)[:CLUSTERS],
        "used": sum(use.used for use in uses),
        "running": sum(use.running for use in uses),
        "stuck": stuck,
        "drafts": drafts,
        "needs": len(stuck) + len(drafts),
        "recent": list(seen.filter(owner_id=actor.user_pk or None).order_by("-pk")[:RECENT]),
        "may_submit": actor.may(Permission.JOB_SUBMIT),
    }
    return render(
        request, "portal/home.html#live" if request.GET.get("part") == "live" else "portal/home.html", context
    )


def _drafts(actor: Actor, slug: str) -> Any:
    own = Draft.objects.visible_to(actor).filter(submitted_at=None).select_related("tenant").order_by("-updated_at")
    return own.filter(tenant__slug=slug) if slug else own


def _greeting() -> str:
    hour = timezone.localtime().hour
    if hour < 5 or hour >= 18:
        return _("Good evening, {name}")
    return _("Good morning, {name}") if hour < 12 else _("Good afternoon, {name}")


@require_GET
def help_page(request: HttpRequest) -> HttpResponse:
    """Shortcuts and the words the portal uses; also as a dialog, on `?`."""
    return render(request, "portal/help.html#card" if request.htmx else "portal/help.html")
