"""Asking for a tenant, and deciding on it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.clusters import services as clusters
from apps.tenants import services
from apps.tenants.domain.asking import LONGEST_NAME, LONGEST_SLUG, LONGEST_TEXT, MOST_GPUS, SLUG

WRONG_SLUG = _("Lower-case letters, digits and dashes; begin with a letter, end with none of the dashes.")
TAKEN = _("There is such a tenant, or somebody has asked for it. Choose another short name.")
_CONTROL = {"class": "form-control", "autocomplete": "off", "spellcheck": "false"}


class AskForm(forms.Form):
    """A new tenant. `cluster` offers the clusters the actor may see."""

    name = forms.CharField(
        label=_("Name"),
        max_length=LONGEST_NAME,
        help_text=_("For people, in any script."),
        widget=forms.TextInput(_CONTROL),
    )
    slug = forms.CharField(
        label=_("Short name"),
        max_length=LONGEST_SLUG,
        help_text=_("For addresses, groups and the namespace tenant-…; it never changes."),
        validators=[RegexValidator(rf"\A{SLUG}\Z", WRONG_SLUG)],
        widget=forms.TextInput({**_CONTROL, "autocapitalize": "none"}),
    )
    cluster = forms.ChoiceField(label=_("Cluster"), widget=forms.Select({"class": "form-select"}))
    gpus = forms.IntegerField(
        label=pgettext_lazy("limit of a tenant", "GPUs"),
        min_value=1,
        max_value=MOST_GPUS,
        help_text=_("How many the team may use at once, lastingly. More for a time is asked for later, as quota."),
        widget=forms.TextInput({**_CONTROL, "inputmode": "numeric"}),
    )
    reason = forms.CharField(
        label=_("Reason"),
        max_length=LONGEST_TEXT,
        help_text=_("What the team will do, and until when. Who decides reads this."),
        widget=forms.Textarea({**_CONTROL, "rows": "4"}),
    )

    def __init__(self, found: QuerySet[clusters.Cluster], data: Any = None) -> None:
        super().__init__(data)
        self._ids = {cluster.slug: cluster.pk for cluster in found}
        self.fields["cluster"].choices = [(cluster.slug, cluster.name) for cluster in found]

    def asked(self) -> services.Asked:
        """What was asked for, once the form is valid."""
        data = self.cleaned_data
        return services.Asked(data["slug"], data["name"], self._ids[data["cluster"]], data["gpus"], data["reason"])


class DecideForm(forms.Form):
    """An operator's word on a request."""

    decision = forms.ChoiceField(choices=[("approve", ""), ("reject", "")])
    gpus = forms.IntegerField(
        label=_("GPUs given"),
        required=False,
        min_value=1,
        max_value=MOST_GPUS,
        help_text=_("Fewer than asked is possible; the reader of your note learns why."),
        widget=forms.TextInput({**_CONTROL, "inputmode": "numeric"}),
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=LONGEST_TEXT,
        help_text=_("For who asked. A rejection needs one."),
        widget=forms.Textarea({**_CONTROL, "rows": "3"}),
    )

    def clean(self) -> None:
        data = self.cleaned_data
        if data.get("decision") == "reject" and not data.get("note"):
            self.add_error("note", _("Say why, so that they can ask better."))

    def said(self) -> services.Decision:
        """The decision, once the form is valid."""
        data = self.cleaned_data
        return services.Decision(data["decision"] == "approve", data["note"], data["gpus"])
