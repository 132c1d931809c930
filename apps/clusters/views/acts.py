"""What operators do with a cluster: look again, maintenance, profile, removal."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.types import Permission
from apps.clusters import services
from apps.clusters.domain import profile
from apps.clusters.forms import MaintenanceForm, ProfileForm
from apps.clusters.models import Cluster


def _cluster(request: HttpRequest, slug: str) -> Cluster:
    """The cluster, for whoever manages clusters. Who may only look gets 403, before anything they sent is read."""
    found = get_object_or_404(Cluster.objects.visible_to(request.actor), slug=slug)
    request.actor.require(Permission.CLUSTER_REGISTER, target=f"cluster:{found.pk}")
    return found


@require_POST
def check(request: HttpRequest, slug: str) -> HttpResponse:
    """Look again."""
    cluster = _cluster(request, slug)
    try:
        services.check_again(request.actor, cluster=cluster)
        messages.success(request, _("The cluster is being checked."))
    except services.NotKept:
        messages.warning(request, _("The token is not kept any more. Enter it again."))
        return redirect("clusters:renew", slug)
    return redirect("clusters:detail", slug)


@require_http_methods(["GET", "POST"])
def maintenance(request: HttpRequest, slug: str) -> HttpResponse:
    """Begin a maintenance, or change what is said of it."""
    cluster = _cluster(request, slug)
    known = {"reason": cluster.maintenance_reason, "until": cluster.maintenance_until}
    form = MaintenanceForm(request.POST) if request.method == "POST" else MaintenanceForm(initial=known)
    if form.is_valid():
        try:
            services.begin_maintenance(request.actor, cluster=cluster, maintenance=form.said())
        except ValidationError as error:
            for name, found in error.message_dict.items():
                form.add_error(name, found)
        else:
            messages.success(
                request, _("{name} takes nothing new now. What runs there goes on.").format(name=cluster.name)
            )
            return redirect("clusters:detail", slug)
    context = {"cluster": cluster, "form": form}
    return render(request, "clusters/maintenance.html", context, status=422 if form.is_bound else 200)


@require_POST
def end_maintenance(request: HttpRequest, slug: str) -> HttpResponse:
    """Open the cluster again."""
    cluster = _cluster(request, slug)
    services.end_maintenance(request.actor, cluster=cluster)
    messages.success(request, _("{name} takes work again.").format(name=cluster.name))
    return redirect("clusters:detail", slug)


@require_http_methods(["GET", "POST"])
def describe(request: HttpRequest, slug: str) -> HttpResponse:
    """The profile."""
    cluster = _cluster(request, slug)
    form = ProfileForm(request.POST) if request.method == "POST" else ProfileForm(initial=ProfileForm.of(cluster))
    if form.is_valid():
        try:
            services.describe(request.actor, cluster=cluster, document=form.document())
        except profile.Bad as bad:
            form.fault(bad)
        else:
            messages.success(request, _("The profile is kept."))
            return redirect("clusters:detail", slug)
    context = {"cluster": cluster, "form": form}
    return render(request, "clusters/profile.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, slug: str) -> HttpResponse:
    """GET says what lives there, else what removing means; POST does it."""
    cluster = _cluster(request, slug)
    wrong, status = False, 200
    if request.method == "POST":
        try:
            services.remove(request.actor, cluster=cluster, typed=request.POST.get("name", ""))
            messages.success(request, _("{name} is removed.").format(name=cluster.name))
            return redirect("clusters:list")
        except services.WrongName:
            wrong, status = True, 422
        except services.Occupied:
            status = 409
    context = {"cluster": cluster, "occupants": services.occupants_of(cluster.pk), "wrong": wrong}
    return render(request, "clusters/remove.html", context, status=status)
