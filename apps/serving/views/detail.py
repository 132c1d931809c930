"""The page of one deployment."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from apps.accounts.services import Listing
from apps.accounts.types import Permission
from apps.serving import services
from apps.serving.domain.phases import Phase, Wanted
from apps.serving.models import Deployment, DeploymentPhase
from apps.serving.services.keys import USUAL_RATE
from apps.serving.services.messages import LOOKS, PHASES
from apps.serving.services.reading import moves_of
from apps.serving.services.written import code_of, to_yaml
from apps.streams import services as streams

TABS = ("replicas", "keys", "history", "manifests")
MOVES = Listing("moves", rising=True)
SHOWN = 5
"""The newest moves that stand beside the page."""
CODES = ("curl", "python")

PLAYGROUND_WORDS = {
    "you": gettext_lazy("You"),
    "first": gettext_lazy("first token after {n} ms"),
    "rate": gettext_lazy("{n} tokens/s"),
    "tokens": gettext_lazy("{n} tokens"),
    "cut": gettext_lazy("cut at the limit"),
    "stopped": gettext_lazy("broken off"),
    "failed": gettext_lazy("The portal did not answer. Ask again."),
}
"""What static/js/playground.js says."""


def deployment_of(request: HttpRequest, deployment_id: str) -> Deployment:
    visible = Deployment.objects.visible_to(request.actor)
    return get_object_or_404(
        visible.select_related("tenant", "owner", "placement__tenant", "placement__cluster", "version"),
        pk=deployment_id,
    )


@require_GET
def detail(request: HttpRequest, deployment_id: str) -> HttpResponse:
    """The page, or what it asks for again: `?part=state` its head and phases, `?part=tab&tab=…` one tab,
    `?part=code&code=…` one example."""
    deployment, asked = deployment_of(request, deployment_id), request.GET.get("tab", "")
    match request.GET.get("part"):
        case "state":
            return render(request, "serving/detail.html#state", state(request, deployment) | {"oob": True})
        case "tab":
            shown = tab(request, deployment, asked)
            return render(request, "serving/detail.html#tab", {"deployment": deployment, **shown})
        case "code":
            return render(request, "serving/endpoint.html", {"deployment": deployment, **endpoint(request, deployment)})
    return render(request, "serving/detail.html", whole(request, deployment, asked))


def whole(request: HttpRequest, deployment: Deployment, asked: str) -> dict[str, Any]:
    """All of the page, with the tab that is asked for."""
    return {
        **state(request, deployment),
        **tab(request, deployment, asked),
        **endpoint(request, deployment),
        "playground_words": PLAYGROUND_WORDS,
        "log_words": streams.LOG_WORDS,
    }


def state(request: HttpRequest, deployment: Deployment) -> dict[str, Any]:
    replicas = services.replicas_of(deployment)
    history = services.history_of(deployment)
    phase, wanted = deployment.state, Wanted(deployment.wanted)
    tone, icon = LOOKS[phase]
    return {
        "deployment": deployment,
        "tone": tone,
        "icon": icon,
        "word": PHASES[phase],
        "steps": [(step, PHASES[step.phase]) for step in services.steps_of(deployment, history, replicas)],
        "happened": [_happened(move) for move in history[: -SHOWN - 1 : -1]],
        "coming": next((replica for replica in replicas if not replica.ready and not replica.going), None),
        "ready": sum(replica.ready for replica in replicas),
        "reason": services.reason_text(deployment.reason, deployment.reason_params),
        "raw": str(deployment.reason_params.get("text", "")),
        "serves": any(replica.ready for replica in replicas) and wanted is Wanted.RUN,
        "may_control": services.may_control(request.actor, deployment),
        "may_use": request.actor.may(Permission.DEPLOYMENT_USE, deployment.tenant_id),
        "runs": wanted is Wanted.RUN,
        "gone": wanted is Wanted.REMOVE or phase is Phase.REMOVED,
    }


def _happened(move: DeploymentPhase) -> tuple[DeploymentPhase, str]:
    """A move and its sentence: its reason, or what it came to."""
    return move, services.reason_text(move.reason, move.reason_params) or str(PHASES[Phase(move.phase)])


def tab(request: HttpRequest, deployment: Deployment, asked: str) -> dict[str, Any]:
    chosen = asked if asked in TABS else TABS[0]
    context: dict[str, Any] = {"tab": chosen, "tabs": [(key, key == chosen) for key in TABS]}
    match chosen:
        case "keys":
            context["keys"] = list(services.keys_of(deployment))
            context["usual_rate"] = USUAL_RATE
            context["may_use"] = request.actor.may(Permission.DEPLOYMENT_USE, deployment.tenant_id)
            context["may_control"] = services.may_control(request.actor, deployment)
        case "manifests":
            context["manifests"] = [(item["kind"], to_yaml(item)) for item in services.manifests_of(deployment)]
        case "history":
            page = MOVES.page(moves_of(deployment), request.GET)
            told = [
                (move, PHASES[Phase(move.phase)], LOOKS[Phase(move.phase)],
                 services.reason_text(move.reason, move.reason_params))
                for move in page.rows
            ]  # fmt: skip
            context |= {"history": page.of(told), "place": MOVES.place(request.GET)}
        case _:
            context["replicas"] = [
                (replica, PHASES[Phase(replica.stage)], LOOKS[Phase(replica.stage)],
                 services.reason_text(replica.reason, replica.reason_params))
                for replica in services.replicas_of(deployment)
            ]  # fmt: skip
    return context


def endpoint(request: HttpRequest, deployment: Deployment) -> dict[str, Any]:
    chosen = request.GET.get("code", "")
    chosen = chosen if chosen in CODES else CODES[0]
    address = services.address_of(deployment, settings.GATEWAY_URL) if settings.GATEWAY_URL else ""
    return {
        "address": address,
        "code": chosen,
        "codes": [(key, key == chosen) for key in CODES],
        "snippet": code_of(chosen, address, deployment.model) if address else "",
        "key_count": services.keys_of(deployment).count(),
    }
