"""Pages of the readers of logs: ours, those of operators, and what they make of some lines."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.types import Permission
from apps.jobs.domain.traininglog.readers import LONGEST, BadPattern, Tried
from apps.jobs.models import LogPattern
from apps.jobs.services import readers as services

MOST_SHOWN = 500


class ReaderForm(forms.Form):
    """A reader; what its pattern may be is checked by the domain."""

    name = forms.CharField(label=_("Name"), max_length=60, widget=forms.TextInput({"class": "form-control"}))
    pattern = forms.CharField(
        label=_("Pattern"), max_length=LONGEST, strip=False,
        widget=forms.Textarea({"class": "form-control mono", "rows": 4, "spellcheck": "false"}),
        help_text=_("Fits a line from end to end and names the groups step, loss, lr, grad_norm …"),
    )  # fmt: skip
    is_on = forms.BooleanField(label=_("In effect"), required=False, initial=True)

    def blame(self, bad: BadPattern) -> None:
        detail = f" ({bad.detail})" if bad.detail else ""
        self.add_error("name" if bad.why in ("name", "too-many") else "pattern", f"{services.FAULTS[bad.why]}{detail}")


@require_GET
def listed(request: HttpRequest) -> HttpResponse:
    """Every reader, and lines to try them on."""
    request.actor.require(Permission.LOG_READERS_VIEW, target="log-readers")
    context = {
        "readers": LogPattern.objects.select_related("changed_by"),
        "ours": services.OURS.values(),
        "may_manage": request.actor.may(Permission.LOG_READERS_MANAGE),
    }
    return render(request, "jobs/readers.html", context)


@require_http_methods(["GET", "POST"])
def reader(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """The form of a new reader, or of this one."""
    request.actor.require(Permission.LOG_READERS_MANAGE, target="log-readers")
    known = get_object_or_404(LogPattern, pk=pk) if pk is not None else None
    initial = {"name": known.name, "pattern": known.pattern, "is_on": known.is_on} if known else None
    form = ReaderForm(request.POST or None, initial=initial)
    if form.is_valid():
        try:
            saved = services.save_reader(request.actor, known=known, **form.cleaned_data)
        except BadPattern as bad:
            form.blame(bad)
        else:
            said = gettext("{name} is saved. Lines that come from now on are read by it within seconds.")
            messages.success(request, said.format(name=saved.name))
            return redirect("readers:list")
    context = {"form": form, "known": known}
    return render(request, "jobs/reader.html", context, status=422 if form.is_bound else 200)


@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    request.actor.require(Permission.LOG_READERS_MANAGE, target="log-readers")
    known = get_object_or_404(LogPattern, pk=pk)
    services.remove_reader(request.actor, known=known)
    messages.success(request, gettext("{name} is removed; the points it has read stay.").format(name=known.name))
    return redirect("readers:list")


@require_POST
def tried(request: HttpRequest) -> HttpResponse:
    """What is read of the lines that were typed: by all readers, or by the pattern that is being written."""
    pattern = request.POST.get("pattern")
    bad = ""
    found: list[Tried] = []
    try:
        found = list(services.try_text(request.actor, request.POST.get("lines", ""), pattern))
    except BadPattern as wrong:
        bad = f"{services.FAULTS[wrong.why]} {wrong.detail}"
    return render(request, "jobs/readers_tried.html", {"bad": bad, **_told(found)})


def _told(found: list[Tried]) -> dict[str, Any]:
    rows = [(one, _name(one.reader), sorted(one.told.values.items())) for one in found[:MOST_SHOWN]]
    return {
        "rows": rows,
        "lines": len(found),
        "read": sum(bool(one.reader) for one in found),
        "doubtful": sum(one.doubtful for one in found),
        "cut": len(found) > MOST_SHOWN,
    }


def _name(reader: str) -> str:
    if reader == services.PATTERN:
        return gettext("this pattern")
    return str(services.OURS[reader][0]) if reader in services.OURS else reader
