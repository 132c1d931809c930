"""The forms through which a cluster's credential goes in. Neither shows a token."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from apps.accounts.types import Permission
from apps.adapters.errors import OutsideError
from apps.clusters import services
from apps.clusters.forms import AccessForm, AddForm
from apps.clusters.models import Cluster

TAKEN = gettext_lazy("There is a cluster of this short name, or was one whose history is kept. Choose another.")


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def add(request: HttpRequest) -> HttpResponse:
    """A new cluster. Its token is handed on to the secrets server at once, or not kept at all."""
    request.actor.require(Permission.CLUSTER_REGISTER, target="cluster")
    if request.method != "POST":
        return _form(request, AddForm(initial={"once": uuid.uuid4()}))
    form = AddForm(request.POST, request.FILES)
    if not form.is_valid():
        return _form(request, form, 422)
    data = form.cleaned_data
    try:
        cluster = services.enter(request.actor, slug=data["slug"], name=data["name"], access=form.access())
    except services.NameTaken:
        form.add_error("slug", TAKEN)
        return _form(request, form, 409)
    except ValidationError as error:
        form.fault(error)
        return _form(request, form, 422)
    except OutsideError as error:
        return _not_kept(request, form, error)
    return redirect("clusters:detail", cluster.slug)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def renew(request: HttpRequest, slug: str) -> HttpResponse:
    """A new credential, and perhaps a new address; what is in use stays so until the new one has passed."""
    request.actor.require(Permission.CLUSTER_REGISTER, target="cluster")
    cluster = get_object_or_404(Cluster.objects.visible_to(request.actor), slug=slug)
    if request.method != "POST":
        begun = {"once": uuid.uuid4(), "server": cluster.server, "ca_pem": cluster.ca_pem}
        return _form(request, AccessForm(initial=begun), cluster=cluster)
    form = AccessForm(request.POST, request.FILES)
    if not form.is_valid():
        return _form(request, form, 422, cluster=cluster)
    try:
        services.renew(request.actor, cluster=cluster, access=form.access())
    except ValidationError as error:
        form.fault(error)
        return _form(request, form, 422, cluster=cluster)
    except OutsideError as error:
        return _not_kept(request, form, error, cluster=cluster)
    messages.success(request, _("The new credential is being checked. The one in use stays until it has passed."))
    return redirect("clusters:detail", slug)


@sensitive_variables("form")
def _form(request: HttpRequest, form: AccessForm, status: int = 200, **context: Any) -> HttpResponse:
    if form.is_bound:
        form.again()
    return render(request, "clusters/access.html", {"form": form, **context}, status=status)


@sensitive_variables("form")
def _not_kept(request: HttpRequest, form: AccessForm, error: OutsideError, **context: Any) -> HttpResponse:
    """The secrets server is sealed or away: nothing was kept, and it will take the same again."""
    response = _form(request, form, 503, not_kept=True, raw=error.text, **context)
    response["Retry-After"] = "10"
    return response
