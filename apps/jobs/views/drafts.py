"""A person's drafts: go on with one, or throw it away."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.services import Listing
from apps.accounts.types import Permission
from apps.jobs import services
from apps.jobs.models import Draft


@require_GET
def drafts(request: HttpRequest) -> HttpResponse:
    """What was begun and not submitted, the newest first."""
    own = Draft.objects.visible_to(request.actor).filter(submitted_at=None).select_related("tenant")
    page = Listing(key="job_id", text=True).page(own, request.GET)
    context = {
        "drafts": page.rows,
        "page": page,
        "may_submit": request.actor.may(Permission.JOB_SUBMIT),
    }
    return render(request, "jobs/drafts.html", context)


@require_http_methods(["GET", "POST"])
def discard(request: HttpRequest, draft_id: uuid.UUID) -> HttpResponse:
    """GET asks, POST throws away."""
    draft = get_object_or_404(Draft.objects.visible_to(request.actor).select_related("tenant"), pk=draft_id)
    if request.method != "POST":
        template = "jobs/discard.html#question" if request.htmx else "jobs/discard.html"
        return render(request, template, {"draft": draft})
    services.discard_draft(request.actor, draft)
    messages.success(request, _("The draft is discarded."))
    return redirect("jobs:drafts")
