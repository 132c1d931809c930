"""What people ask of a deployment on its page: scale, stop, start, remove, keys."""

from __future__ import annotations

import json
from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.serving import services
from apps.serving.models import Deployment, DeploymentKey
from apps.serving.services.messages import PHASES
from apps.serving.views.detail import deployment_of, state, whole


def _answer(request: HttpRequest, deployment: Deployment, said: str, tone: str = "done") -> HttpResponse:
    """A script gets the head of the page back, others the page."""
    if not request.htmx:
        (messages.success if tone == "done" else messages.warning)(request, said)
        return redirect("serving:detail", deployment.pk)
    deployment.refresh_from_db()
    response = render(request, "serving/detail.html#state", state(request, deployment) | {"oob": True})
    response["HX-Trigger"] = json.dumps({"toast": {"text": said, "tone": tone}})
    return response


def _act(request: HttpRequest, deployment: Deployment, do: Callable[[], None], said: str) -> HttpResponse:
    try:
        do()
    except services.NotNow as not_now:
        text = _("Nothing was changed: the deployment is “{phase}”.").format(phase=PHASES[not_now.phase])
        return _answer(request, deployment, text, "failed")
    except services.InvalidRequest as invalid:
        return _answer(request, deployment, services.problem_text(invalid.problems[0]), "failed")
    return _answer(request, deployment, said)


@require_http_methods(["GET", "POST"])
def scale(request: HttpRequest, deployment_id: str) -> HttpResponse:
    """GET asks how many, POST does it."""
    deployment = deployment_of(request, deployment_id)
    if request.method != "POST":
        return _ask(request, "serving/scale.html", deployment)
    replicas = request.POST.get("replicas", "")
    said = _("{name} is being scaled.").format(name=deployment.name)
    return _act(
        request, deployment, lambda: services.scale(request.actor, deployment=deployment, replicas=replicas), said
    )


@require_http_methods(["GET", "POST"])
def stop(request: HttpRequest, deployment_id: str) -> HttpResponse:
    """GET says what will happen, POST does it."""
    deployment = deployment_of(request, deployment_id)
    if request.method != "POST":
        return _ask(request, "serving/stop.html", deployment)
    said = _("{name} is being stopped.").format(name=deployment.name)
    return _act(request, deployment, lambda: services.stop(request.actor, deployment=deployment), said)


@require_POST
def start(request: HttpRequest, deployment_id: str) -> HttpResponse:
    deployment = deployment_of(request, deployment_id)
    said = _("{name} is being started.").format(name=deployment.name)
    return _act(request, deployment, lambda: services.start(request.actor, deployment=deployment), said)


@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, deployment_id: str) -> HttpResponse:
    """GET says what will be gone, POST with the typed name does it."""
    deployment = deployment_of(request, deployment_id)
    if request.method != "POST":
        return _ask(request, "serving/remove.html", deployment)
    typed = request.POST.get("typed", "")
    said = _("{name} is being removed.").format(name=deployment.name)
    return _act(request, deployment, lambda: services.remove(request.actor, deployment=deployment, typed=typed), said)


def _ask(request: HttpRequest, template: str, deployment: Deployment) -> HttpResponse:
    services.require_control(request.actor, deployment)
    context = {
        "deployment": deployment,
        "key_count": services.keys_of(deployment).count(),
        "may_control": services.may_control(request.actor, deployment),
    }
    return render(request, f"{template}#question" if request.htmx else template, context)


@never_cache
@require_POST
def key_create(request: HttpRequest, deployment_id: str) -> HttpResponse:
    """Make a key; the answer is the page that shows it, this once."""
    deployment = deployment_of(request, deployment_id)
    errors: list[str] = []
    clear = ""
    try:
        _key, clear = services.make_key(
            request.actor,
            deployment=deployment,
            name=request.POST.get("name", ""),
            rate=request.POST.get("rate", ""),
        )
    except services.InvalidRequest as invalid:
        errors = [services.problem_text(problem) for problem in invalid.problems]
    except services.NotNow as not_now:
        errors = [_("Nothing was changed: the deployment is “{phase}”.").format(phase=PHASES[not_now.phase])]
    context = whole(request, deployment, "keys") | {"clear_key": clear, "key_errors": errors, "typed": request.POST}
    return render(request, "serving/detail.html", context, status=422 if errors else 200)


@require_POST
def key_revoke(request: HttpRequest, deployment_id: str, key_id: int) -> HttpResponse:
    deployment = deployment_of(request, deployment_id)
    keys = DeploymentKey.objects.visible_to(request.actor).filter(deployment=deployment)
    key = get_object_or_404(keys.select_related("deployment"), pk=key_id)
    services.revoke_key(request.actor, key=key)
    messages.success(request, _("The key {name} opens nothing any more.").format(name=key.name))
    response = redirect("serving:detail", deployment.pk)
    response["Location"] += "?tab=keys"
    return response
