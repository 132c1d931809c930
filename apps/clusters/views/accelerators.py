"""Pages of the catalogue of accelerators: what is known of each kind, and an operator's form to add to it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.types import Permission
from apps.clusters.domain.accelerators import LONGEST, Accelerator, memory_text
from apps.clusters.services import catalogue as services
from apps.clusters.services.nodewords import COUNTS

_LINK = ("link_name", "link_rate", "link_unit", "link_direction", "link_peers", "link_source")


class EntryForm(forms.Form):
    """An entry of the catalogue. What it may hold is checked by the domain; its faults come back to their fields."""

    slug = forms.SlugField(label=_("Short name"), max_length=40)
    name = forms.CharField(label=_("Name"), max_length=LONGEST)
    vendor = forms.CharField(label=_("Vendor"), max_length=LONGEST, required=False)
    counts = forms.ChoiceField(label=_("One of it is a"), choices=list(COUNTS.items()))
    resources = forms.CharField(
        label=_("Resource names"), widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("As nodes offer them, domain/name, one a line; * stands for any text."),
    )  # fmt: skip
    memory = forms.CharField(
        label=_("Memory of one"), max_length=20, required=False, help_text=_("80 GiB or 24 GB; empty if not known.")
    )
    label = forms.CharField(
        label=_("Label that names the product"), max_length=LONGEST, required=False, help_text=_("A label of nodes.")
    )
    products = forms.CharField(
        label=_("Its values"), widget=forms.Textarea(attrs={"rows": 3}), required=False,
        help_text=_("One a line; * stands for any text. Empty: whatever else has this resource."),
    )  # fmt: skip
    memory_label = forms.CharField(label=_("Label with the memory in MiB"), max_length=LONGEST, required=False)
    count_label = forms.CharField(label=_("Label with the number in the machine"), max_length=LONGEST, required=False)
    driver_label = forms.CharField(label=_("Label with the driver's version"), max_length=LONGEST, required=False)
    driver_floor = forms.CharField(label=_("Oldest driver that will do"), max_length=LONGEST, required=False)
    link_name = forms.CharField(label=_("Link between those of a node"), max_length=LONGEST, required=False)
    link_rate = forms.FloatField(label=_("Its rate"), min_value=0, required=False)
    link_unit = forms.ChoiceField(label=_("Unit"), choices=[("GB/s", "GB/s"), ("Gb/s", "Gb/s")], required=False)
    link_direction = forms.ChoiceField(
        label=_("Which counts"), required=False,
        choices=[("both", _("both directions together")), ("one", _("one direction"))],
    )  # fmt: skip
    link_peers = forms.IntegerField(
        label=_("Divided over"), min_value=1, max_value=999, required=False, initial=1,
        help_text=_("1 behind a switch; 7 in a full mesh of eight."),
    )  # fmt: skip
    link_source = forms.CharField(label=_("Where the rate is from"), max_length=LONGEST, required=False)
    slices = forms.BooleanField(label=_("It can be cut into slices"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field, forms.ChoiceField):
                field.widget.attrs["class"] = "form-select"
            elif not isinstance(field, forms.BooleanField):
                field.widget.attrs["class"] = "form-control"

    def body(self) -> dict[str, Any]:
        data = self.cleaned_data
        body = {key: value for key, value in data.items() if key != "slug" and not key.startswith("link_")}
        for key in ("resources", "products"):
            body[key] = [line.strip() for line in data[key].splitlines() if line.strip()]
        link = {key.removeprefix("link_"): data[key] for key in _LINK}
        body["link"] = {**link, "peers": link["peers"] or 1} if link["name"] or link["rate"] else None
        return body

    def blame(self, wrong: services.Wrong) -> None:
        field = "link_name" if wrong.field == "link" else wrong.field
        self.add_error(field if field in self.fields else None, str(services.FAULTS[wrong.why]))


def _initial(entry: Accelerator) -> dict[str, Any]:
    body = services.body_of(entry)
    link = body.pop("link") or {}
    for key in ("resources", "products"):
        body[key] = "\n".join(body[key])
    body["memory"] = memory_text(entry.memory)
    return {"slug": entry.slug, **body, **{f"link_{key}": value for key, value in link.items()}}


@require_GET
def accelerators(request: HttpRequest) -> HttpResponse:
    """Every entry, those of operators first."""
    actor = request.actor
    actor.require(Permission.CLUSTER_VIEW, target="accelerators")
    text = request.GET.get("q", "")[:80].strip().lower()
    entries = services.catalogue().entries
    shown = [one for one in entries if text in f"{one.slug} {one.name} {one.vendor} {' '.join(one.resources)}".lower()]
    context = {
        "entries": shown,
        "own": services.added_slugs(),
        "text": text,
        "may_manage": actor.may(Permission.CLUSTER_REGISTER),
    }
    return render(request, "clusters/fleet/accelerators.html", context)


@require_http_methods(["GET", "POST"])
def entry(request: HttpRequest, slug: str = "") -> HttpResponse:
    """The form: for a new entry, or for the one of this slug."""
    request.actor.require(Permission.CLUSTER_REGISTER, target="accelerators")
    known = next((one for one in services.catalogue().entries if one.slug == slug), None)
    if slug and known is None:
        raise Http404
    form = EntryForm(request.POST or None, initial=_initial(known) if known else None)
    if form.is_valid():
        try:
            saved = services.save_accelerator(request.actor, slug or form.cleaned_data["slug"], form.body())
        except services.Wrong as wrong:
            form.blame(wrong)
        else:
            said = gettext("{name} is saved. Nodes are counted by it within half a minute.")
            messages.success(request, said.format(name=saved.name))
            return redirect("fleet:accelerators")
    context = {"form": form, "entry": known, "slug": slug, "is_own": slug in services.added_slugs()}
    return render(request, "clusters/fleet/entry.html", context, status=422 if form.is_bound else 200)


@require_POST
def remove(request: HttpRequest, slug: str) -> HttpResponse:
    """Take an operator's entry away."""
    if services.remove_accelerator(request.actor, slug):
        messages.success(request, gettext("The entry is removed; a shipped one of that name counts again."))
    else:
        messages.warning(request, gettext("Operators have added no such entry."))
    return redirect("fleet:accelerators")
