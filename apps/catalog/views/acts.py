"""What people do with a model: stages, files, changing and deleting it."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.types import Permission
from apps.adapters.errors import NotFound, Unavailable
from apps.catalog import services
from apps.catalog.services import words
from apps.catalog.services.sending import streamed
from apps.catalog.views.model import model_of, version_of

MOST_USES = 20


def _page(version: services.ModelVersion) -> str:
    return f"{reverse('catalog:model', args=[version.model_id])}?version={version.number}"


@require_POST
def stage(request: HttpRequest, model_id: str, number: int) -> HttpResponse:
    """Take one step with a version."""
    version = version_of(request, model_id, number)
    act = request.POST.get("act", "")
    if act not in words.ACTS:
        return redirect(_page(version))
    try:
        moved = services.move_stage(
            request.actor, version=version, act=act, comment=request.POST.get("comment", "")[:2000]
        )
    except services.NotNow as not_now:
        text = str(words.OBSTACLES[not_now.code]).format(stage=words.STAGES[not_now.stage])
        messages.warning(request, _("Nothing was changed: {reason}").format(reason=text))
    except services.Invalid as invalid:
        text = words.fault_text(invalid.faults[0])
        messages.warning(
            request, _("Nothing was changed: {reason}").format(reason=f"{words.FIELDS['comment']}: {text}")
        )
    else:
        told = {"version": moved.number, "stage": words.stage_name(moved.stage)}
        messages.success(request, _("v{version} is now “{stage}”.").format(**told))
    return redirect(_page(version))


@require_POST
def again(request: HttpRequest, model_id: str, number: int) -> HttpResponse:
    """Try once more to bring the files."""
    version = version_of(request, model_id, number)
    services.bring_again(request.actor, version=version)
    messages.success(request, _("The files are asked for again."))
    return redirect(_page(version))


@require_GET
def file(request: HttpRequest, model_id: str, number: int, path: str) -> HttpResponse | StreamingHttpResponse:
    """One file of a version, to be saved."""
    version = version_of(request, model_id, number)
    found = services.file_of(version, path)
    if found is None or not version.is_ready:
        raise Http404
    services.note_download(request.actor, version=version, file=found)
    try:
        answer = streamed(request, found)
    except (Unavailable, NotFound):
        messages.error(request, _("The portal's storage does not answer. Try again in a moment."))
        return redirect(f"{_page(version)}&tab=files")
    answer["Content-Disposition"] = content_disposition_header(True, path.rpartition("/")[2]) or "attachment"
    return answer


@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, model_id: str) -> HttpResponse:
    """Change what is said of a model."""
    model = model_of(request, model_id)
    request.actor.require(Permission.MODEL_EDIT, model.tenant_id, target=f"model:{model.pk}")
    typed = {
        "name": model.name, "licence": model.licence, "visibility": model.visibility, "card": model.card,
        "tags": ", ".join(model.tags),
    }  # fmt: skip
    faults: dict[str, str] = {}
    if request.method == "POST":
        typed = {key: request.POST.get(key, "") for key in typed}
        typed["card"] = typed["card"].replace("\r\n", "\n")
        try:
            services.edit_model(request.actor, model=model, said=_said(typed))
        except services.Invalid as invalid:
            faults = {fault.field: words.fault_text(fault) for fault in invalid.faults}
        else:
            messages.success(request, _("{name} is changed.").format(name=typed["name"]))
            return redirect("catalog:model", model.pk)
    return render(request, "catalog/edit.html", {"model": model, **services.form_context(typed, faults)})


def _said(typed: dict[str, str]) -> services.Said:
    return services.Said(
        typed["name"], typed["licence"], typed["visibility"], typed["card"], services.tags_of(typed["tags"])
    )


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, model_id: str) -> HttpResponse:
    """GET says what will be gone and what stands in the way, POST does it."""
    model = model_of(request, model_id)
    request.actor.require(Permission.MODEL_EDIT, model.tenant_id, target=f"model:{model.pk}")
    wrong = False
    if request.method == "POST":
        try:
            services.delete_model(request.actor, model=model, typed=request.POST.get("name", ""))
        except services.WrongName:
            wrong = True
        except services.InUse:
            messages.warning(request, _("Nothing was deleted: the model is in use."))
        else:
            messages.success(request, _("{name} is deleted.").format(name=model.name))
            return redirect("catalog:list")
    versions = list(services.versions_of(request.actor, model).values_list("pk", flat=True))
    uses = services.uses_of(versions)
    context = {"model": model, "versions": versions, "uses": uses[:MOST_USES], "wrong": wrong}
    context["more_uses"] = max(len(uses) - MOST_USES, 0)
    return render(request, "catalog/delete.html", context, status=409 if request.method == "POST" and uses else 200)
