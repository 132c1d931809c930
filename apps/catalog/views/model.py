"""The page of one model: its card, versions, lineage, files, and where it fits now."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.catalog import services
from apps.catalog.domain.fit import BESIDE, places
from apps.catalog.domain.stages import Stage, Visibility
from apps.catalog.models import ModelVersion, RegisteredModel, Transfer
from apps.catalog.services import lineage, market, words

VERSIONS = accounts.Listing(key="number")
FILES = accounts.Listing(key="path", rising=True, text=True)
CHANGES = accounts.Listing()
MOST_NUMBERS = 12
"""Versions to choose among beside the name; the tab has them all."""
TABS = ("card", "versions", "files", "history")


def model_of(request: HttpRequest, model_id: str) -> RegisteredModel:
    visible = RegisteredModel.objects.visible_to(request.actor).select_related("tenant", "created_by")
    return get_object_or_404(visible, pk=model_id)


def version_of(request: HttpRequest, model_id: str, number: int) -> ModelVersion:
    visible = ModelVersion.objects.visible_to(request.actor).select_related("model", "tenant", "author")
    return get_object_or_404(visible, model__id=model_id, number=number)


@require_GET
def model(request: HttpRequest, model_id: str) -> HttpResponse:
    """The page, or what it asks for again: `?part=state` is everything that follows the model, `?part=fits` where it
    fits now."""
    found = model_of(request, model_id)
    version = _chosen(request, found)
    match request.GET.get("part"):
        case "fits":
            return render(request, "catalog/model.html#fits", _fits(request, version))
        case "state":
            return render(request, "catalog/model.html#state", page_context(request, version))
    return render(request, "catalog/model.html", page_context(request, version))


def _chosen(request: HttpRequest, found: RegisteredModel) -> ModelVersion:
    """The version the address names, else the newest of those that have come farthest."""
    versions = services.versions_of(request.actor, found)
    asked = request.GET.get("version", "")
    if asked:
        is_number = asked.isascii() and asked.isdecimal() and len(asked) < 10
        version = versions.filter(number=int(asked)).first() if is_number else None
    else:
        version = versions.filter(stage=found.stage).first() or versions.first()
    if version is None:
        raise Http404
    version.model = found
    return version


def page_context(request: HttpRequest, version: ModelVersion) -> dict[str, Any]:
    actor, found = request.actor, version.model
    uses = services.uses_of([version.pk])
    tone, icon = words.STAGE_LOOKS[Stage(version.stage)]
    facts = version.facts
    return {
        "model": found,
        "version": version,
        "numbers": list(services.versions_of(actor, found).values_list("number", flat=True)[:MOST_NUMBERS]),
        "look": (tone, icon, words.STAGES[Stage(version.stage)]),
        "visibility": words.VISIBILITIES[Visibility(found.visibility)],
        "format": words.FORMATS.get(facts.get("format", ""), ""),
        "faults": [(f["path"], words.header_fault(f["code"])) for f in facts.get("faults", [])],
        "columns": lineage.picture(actor, version, uses),
        "loss": version.lineage.get("metrics", {}).get("loss"),
        "acts": [(a.key, words.ACTS[a.key], words.OBSTACLES.get(a.why, "")) for a in services.acts_on(actor, version)],
        "may_edit": actor.may(Permission.MODEL_EDIT, found.tenant_id),
        "may_deploy": actor.may(Permission.DEPLOYMENT_CREATE) and version.stage != Stage.WITHDRAWN,
        "moving": moving(request, version),
        **_fits(request, version),
        **_tab(request, found, version),
    }


def moving(request: HttpRequest, version: ModelVersion) -> dict[str, Any] | None:
    """How the files come, while they do and when they did not."""
    transfer: Transfer | None = None if version.is_ready else services.transfer_for(version)
    if transfer is None:
        return None
    return {
        "transfer": transfer,
        "failed": version.files == services.Files.FAILED,
        "text": words.transfer_text(transfer),
        "word": words.moving_word(transfer),
        "may_retry": request.actor.may(Permission.MODEL_REGISTER, version.tenant_id),
    }


def _fits(request: HttpRequest, version: ModelVersion) -> dict[str, Any]:
    clusters, nodes = market.free_nodes(request.actor)
    weight = version.facts.get("weight_bytes")
    return {
        "model": version.model,
        "version": version,
        "clusters": clusters,
        "places": places(weight, nodes),
        "weight": weight,
        "need": round(weight * BESIDE) if weight else None,
    }


def _tab(request: HttpRequest, found: RegisteredModel, version: ModelVersion) -> dict[str, Any]:
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else TABS[0]
    names = {"card": words.FIELDS["card"], "versions": words.TABS["versions"], "files": words.TABS["files"],
             "history": words.TABS["history"]}  # fmt: skip
    context: dict[str, Any] = {"tab": tab, "tabs": [(key, names[key], key == tab) for key in TABS]}
    match tab:
        case "versions":
            looks = {stage.value: (*look, words.STAGES[stage]) for stage, look in words.STAGE_LOOKS.items()}
            versions = VERSIONS.page(services.versions_of(request.actor, found), request.GET)
            context["versions"] = [(one, looks[one.stage]) for one in versions.rows]
            context["page"] = versions
        case "files":
            files = FILES.page(services.files_of(version), request.GET)
            context["files"], context["page"] = files.rows, files
            context["unopened"] = version.facts.get("unopened", [])
        case "history":
            changes = CHANGES.page(services.stages_of(version), request.GET)
            context["changes"] = [(one, words.stage_name(one.old), words.stage_name(one.new)) for one in changes.rows]
            context["page"] = changes
        case _:
            context["card"] = services.html_of(found.card)
    return context
