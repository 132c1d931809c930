"""Registering a job's checkpoint as a model: one form, beside which what is kept of the job is told."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.accounts.types import Permission
from apps.catalog import services as catalog
from apps.catalog.services import Invalid, form_context, tags_of
from apps.jobs.models import Job
from apps.jobs.services import registering
from apps.jobs.views.detail import job_of

FIELDS = ("model_id", "name", "licence", "visibility", "card", "tags", "note")


@never_cache
@require_http_methods(["GET", "POST"])
def register(request: HttpRequest, job_id: str) -> HttpResponse:
    """GET asks what is said of the model, POST registers it; the files follow in the background."""
    job = job_of(request, job_id)
    request.actor.require(Permission.MODEL_REGISTER, job.tenant_id, target=f"job:{job.pk}")
    typed = {name: request.POST.get(name, "") for name in FIELDS}
    faults: dict[str, str] = {}
    if request.method == "POST":
        typed["card"] = typed["card"].replace("\r\n", "\n")
        said = {**typed, "tags": tags_of(typed["tags"])}
        try:
            version = registering.register_model(
                request.actor, job=job, said=said, key=request.POST.get("key", "")[:64]
            )
        except Invalid as invalid:
            faults = {fault.field: catalog.fault_text(fault) for fault in invalid.faults}
        else:
            told = {"name": version.model.name, "n": version.number}
            messages.success(request, _("{name} v{n} is registered; its files are being brought.").format(**told))
            return redirect(f"{reverse('catalog:model', args=[version.model_id])}?version={version.number}")
    else:
        typed |= {"name": job.name, "visibility": catalog.Visibility.TENANT, "licence": "Internal"}
    return render(request, "jobs/register.html", _context(request, job, typed, faults))


def _context(request: HttpRequest, job: Job, typed: dict[str, str], faults: dict[str, str]) -> dict[str, Any]:
    lineage = registering.lineage_of(job)
    return {
        "job": job,
        "models": catalog.models_of(request.actor, job.tenant_id),
        "lineage": lineage,
        "loss": lineage["metrics"].get("loss"),
        "key": request.POST.get("key") or secrets.token_urlsafe(16),
        **form_context(typed, faults),
    }
