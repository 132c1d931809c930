"""The pages through which a cluster's Prometheus or Loki is entered, checked again and removed."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.types import Permission
from apps.adapters.errors import OutsideError
from apps.clusters.forms import SourceForm
from apps.clusters.models import Cluster
from apps.clusters.services import sources


def _managed(request: HttpRequest, slug: str, kind: str) -> Cluster:
    """The cluster, for whoever manages clusters. Who may only look gets 403, before anything they sent is read."""
    if kind not in sources.NAMES:
        raise Http404
    found = get_object_or_404(Cluster.objects.visible_to(request.actor), slug=slug)
    request.actor.require(Permission.CLUSTER_REGISTER, target=f"cluster:{found.pk}")
    return found


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def enter(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """Enter one; what is in use stays so until the new one was checked."""
    cluster = _managed(request, slug, kind)
    used, entered = sources.sources_of(cluster, kind)
    known = entered or used
    if request.method != "POST":
        begun: dict[str, Any] = {"once": uuid.uuid4()}
        begun |= {"url": known.url, "ca_pem": known.ca_pem, "org": known.org} if known else {}
        return _form(request, cluster, SourceForm(initial=begun, kind=kind), 200)
    form = SourceForm(request.POST, kind=kind)
    if not form.is_valid():
        return _form(request, cluster, form, 422)
    try:
        sources.enter_source(request.actor, cluster=cluster, kind=kind, access=form.access())
    except ValidationError as error:
        form.fault(error)
        return _form(request, cluster, form, 422)
    except OutsideError:
        response = _form(request, cluster, form, 503)
        response["Retry-After"] = "10"
        return response
    messages.success(request, _("It is being checked. This page shows what comes of it."))
    return redirect("clusters:detail", slug)


@sensitive_variables("form")
def _form(request: HttpRequest, cluster: Cluster, form: SourceForm, status: int) -> HttpResponse:
    if form.is_bound:
        form.again()
    context = {"cluster": cluster, "form": form, "not_kept": status == 503, "name": sources.NAMES[form.kind]}
    return render(request, "clusters/source.html", context, status=status)


@require_POST
def check(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """Check what failed once more."""
    cluster = _managed(request, slug, kind)
    if sources.check_source_again(request.actor, cluster=cluster, kind=kind):
        messages.success(request, _("It is being checked. This page shows what comes of it."))
    return redirect("clusters:detail", slug)


@require_POST
def remove(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """Read it no more."""
    cluster = _managed(request, slug, kind)
    if sources.remove_source(request.actor, cluster=cluster, kind=kind):
        messages.success(request, _("It is read no more. What was read from it stays."))
    return redirect("clusters:detail", slug)
