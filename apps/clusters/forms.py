"""What operators type about clusters. A token is never written back into a page, and never kept as a draft."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.clusters.domain import kubeconfig, profile
from apps.clusters.models import Cluster
from apps.clusters.services import words
from apps.clusters.services.entering import Access
from apps.clusters.services.maintenance import LONGEST_REASON, Maintenance
from apps.clusters.services.sources import LONGEST_ORG, WITH_ORG, SourceAccess

_CONTROL = {"class": "form-control", "autocomplete": "off", "spellcheck": "false"}
_CONCEALED = {**_CONTROL, "class": "form-control mono concealed"}


def _authority() -> forms.CharField:
    return forms.CharField(
        label=_("Certificate authority"),
        required=False,
        help_text=_("In PEM form; empty where a public authority signs."),
        widget=forms.Textarea({**_CONTROL, "class": "form-control mono", "rows": "4"}),
    )


class Concealed(forms.Textarea):
    """Several lines that show as dots where browsers can, and are empty whenever a page is made."""

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        return super().get_context(name, None, attrs)


class AccessForm(forms.Form):
    """A kubeconfig, or address, authority and token. `once` is this form's own id."""

    once = forms.UUIDField(widget=forms.HiddenInput, required=False)
    kubeconfig = forms.CharField(
        label=_("Kubeconfig"),
        required=False,
        strip=False,
        help_text=_("Of the portal's own account in the cluster, with a token in it."),
        widget=Concealed({**_CONCEALED, "rows": "5"}),
    )
    file = forms.FileField(
        label=_("Or a file"),
        required=False,
        widget=forms.FileInput({"class": "form-control", "accept": ".yaml,.yml,.conf"}),
    )
    context = forms.CharField(
        label=_("Context"),
        required=False,
        max_length=253,
        help_text=_("Only if the file has several, and the current one is not meant."),
        widget=forms.TextInput(_CONTROL),
    )
    server = forms.CharField(
        label=_("API server"),
        required=False,
        max_length=255,
        help_text=_("As https://host:port, as the portal's workers reach it."),
        widget=forms.TextInput({**_CONTROL, "inputmode": "url"}),
    )
    ca_pem = _authority()
    token = forms.CharField(
        label=_("Token"),
        required=False,
        strip=True,
        help_text=_("Of a service account. It goes to the secrets server and is not shown again."),
        widget=Concealed({**_CONCEALED, "rows": "3"}),
    )

    def clean(self) -> None:
        """Settle on one way; a pasted file gives address and authority, which then stand in their fields."""
        data = self.cleaned_data
        text = self._pasted()
        if text and data.get("token"):
            self.add_error("token", _("Give either a kubeconfig or a token, not both."))
        elif text:
            self._read(text)
        else:
            for name in ("server", "token"):
                if name not in self.errors and not data.get(name):
                    self.add_error(name, _("Fill this in, or give a kubeconfig."))

    def _pasted(self) -> str:
        found = self.cleaned_data.get("file")
        if found is None:
            return str(self.cleaned_data.get("kubeconfig") or "")
        if found.size > kubeconfig.MOST_BYTES:
            self.add_error("file", words.kubeconfig_text(kubeconfig.Bad("too-large", maximum="64")))
            return ""
        return str(found.read().decode("utf-8", "replace"))

    def _read(self, text: str) -> None:
        try:
            found = kubeconfig.read(text, self.cleaned_data.get("context", ""))
        except kubeconfig.Bad as bad:
            field = "context" if bad.code == "context" else "file" if self.cleaned_data.get("file") else "kubeconfig"
            self.add_error(field, words.kubeconfig_text(bad))
            return
        self.cleaned_data |= {"server": found.server, "ca_pem": found.ca_pem, "token": found.token}
        self.data = {**self.data.dict(), "server": found.server, "ca_pem": found.ca_pem}  # type: ignore[attr-defined]

    def access(self) -> Access:
        """What was entered, of a valid form."""
        data = self.cleaned_data
        return Access(data["server"].strip(), data["ca_pem"].strip(), data["token"], data["once"] or uuid.uuid4())

    def fault(self, error: ValidationError) -> None:
        """Show what a service has found wrong beside its field."""
        for name, found in error.message_dict.items():
            self.add_error(name if name in self.fields else None, found)

    def again(self) -> None:
        """Be a new form: the next press of the button is another entry."""
        data = self.data.dict() if hasattr(self.data, "dict") else self.data
        self.data = {**data, "once": str(uuid.uuid4())}  # type: ignore[assignment]


class AddForm(AccessForm):
    """The same with a name."""

    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("For people, in any script."), widget=forms.TextInput(_CONTROL)
    )
    slug = forms.SlugField(
        label=_("Short name"),
        max_length=40,
        help_text=_("For addresses and scripts, such as train-a; it never changes."),
        widget=forms.TextInput({**_CONTROL, "autocapitalize": "none"}),
    )
    field_order = ["name", "slug"]


class SourceForm(forms.Form):
    """Address and token of a system of some kind that tells of a cluster. `once` is this form's own id."""

    once = forms.UUIDField(widget=forms.HiddenInput, required=False)
    url = forms.CharField(
        label=_("Address"),
        max_length=255,
        help_text=_("As https://host:port/path, as the portal's workers reach it; {path} comes behind it."),
        widget=forms.TextInput({**_CONTROL, "inputmode": "url"}),
    )
    ca_pem = _authority()
    token = forms.CharField(
        label=_("Token"),
        required=False,
        help_text=_("If it asks for one. It goes to the secrets server and is not shown again."),
        widget=Concealed({**_CONCEALED, "rows": "3"}),
    )
    org = forms.CharField(
        label=_("Tenant"),
        required=False,
        max_length=LONGEST_ORG,
        help_text=_("Where it keeps tenants apart: whose logs to ask for (X-Scope-OrgID). Empty where it does not."),
        widget=forms.TextInput(_CONTROL),
    )

    def __init__(self, *args: Any, kind: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        path = "/loki/api/v1" if kind in WITH_ORG else "/api/v1"
        self.fields["url"].help_text = str(self.fields["url"].help_text).format(path=path)
        if kind not in WITH_ORG:
            del self.fields["org"]

    def access(self) -> SourceAccess:
        """What was entered, of a valid form."""
        data = self.cleaned_data
        once = data["once"] or uuid.uuid4()
        return SourceAccess(data["url"], data["ca_pem"], data["token"], data.get("org", ""), once)

    def fault(self, error: ValidationError) -> None:
        """Show what a service has found wrong beside its field."""
        for name, found in error.message_dict.items():
            self.add_error(name, found)

    def again(self) -> None:
        """Be a new form: the next press of the button is another entry."""
        self.data = {**self.data.dict(), "once": str(uuid.uuid4())}  # type: ignore[attr-defined, assignment]


class MaintenanceForm(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=LONGEST_REASON,
        help_text=_("One line. Whoever wants to submit work there reads it."),
        widget=forms.TextInput(_CONTROL),
    )
    until = forms.DateTimeField(
        label=_("Until about"),
        required=False,
        help_text=_("For people's plans. You end it yourself."),
        widget=forms.DateTimeInput({**_CONTROL, "type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def said(self) -> Maintenance:
        """What was said, of a valid form."""
        return Maintenance(self.cleaned_data["reason"], self.cleaned_data["until"])


def _choice(label: Any, options: Any, *, required: bool = False) -> forms.ChoiceField:
    choices = [(key.value, word) for key, word in options.items()]
    if required is False and all(key for key, _word in choices):
        choices = [("", "–"), *choices]
    return forms.ChoiceField(
        label=label, required=False, choices=choices, widget=forms.Select({"class": "form-select"})
    )


def _text(label: Any) -> forms.CharField:
    return forms.CharField(label=label, required=False, widget=forms.TextInput(_CONTROL))


def _number(label: Any) -> forms.IntegerField:
    return forms.IntegerField(label=label, required=False, widget=forms.TextInput({**_CONTROL, "inputmode": "numeric"}))


class ProfileForm(forms.Form):
    """A profile, with its rows as numbered fields; the rules are those of `domain.profile`."""

    fabric = _choice(words.FIELDS["fabric"], words.FABRICS)
    scheduler = _choice(words.FIELDS["scheduler"], words.SCHEDULERS, required=True)
    cni = _text(words.FIELDS["cni"])
    pod_mtu = _number(words.FIELDS["pod_mtu"])
    note = _text(words.FIELDS["note"])

    PLANE = ("name", "purpose", "gbit", "mtu", "cidr")
    POOL = ("name", "role", "label")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for n in range(profile.MOST_PLANES):
            self.fields[f"planes.{n}.name"] = _text(_("Name"))
            self.fields[f"planes.{n}.purpose"] = _choice(_("Carries"), words.PURPOSES)
            self.fields[f"planes.{n}.gbit"] = _number(_("Gbit/s"))
            self.fields[f"planes.{n}.mtu"] = _number(_("MTU"))
            self.fields[f"planes.{n}.cidr"] = _text(_("Network"))
        for n in range(profile.MOST_POOLS):
            self.fields[f"pools.{n}.name"] = _text(_("Name"))
            self.fields[f"pools.{n}.role"] = _choice(_("Used for"), words.ROLES)
            self.fields[f"pools.{n}.label"] = _text(_("Label of its nodes"))

    @staticmethod
    def of(cluster: Cluster) -> dict[str, Any]:
        """What the form begins with."""
        row = cluster.described.to_row()
        first = {name: row[name] or "" for name in ("fabric", "scheduler", "cni", "pod_mtu", "note")}
        for kind in ("planes", "pools"):
            for n, one in enumerate(row[kind]):
                first |= {f"{kind}.{n}.{name}": value or "" for name, value in one.items()}
        return first

    def rows(self, kind: str, most: int, names: tuple[str, ...]) -> list[list[forms.BoundField]]:
        return [[self[f"{kind}.{n}.{name}"] for name in names] for n in range(most)]

    def plane_rows(self) -> list[list[forms.BoundField]]:
        return self.rows("planes", profile.MOST_PLANES, self.PLANE)

    def pool_rows(self) -> list[list[forms.BoundField]]:
        return self.rows("pools", profile.MOST_POOLS, self.POOL)

    def document(self) -> dict[str, Any]:
        """The profile as JSON, of a valid form; rows without anything in them are none."""
        data = self.cleaned_data
        top = {name: data[name] for name in ("fabric", "cni", "note")}
        top |= {"scheduler": data["scheduler"] or profile.Scheduler.VOLCANO.value, "pod_mtu": data["pod_mtu"] or 0}
        planes = [row for _n, row in self._filled("planes", profile.MOST_PLANES, self.PLANE)]
        pools = [row for _n, row in self._filled("pools", profile.MOST_POOLS, self.POOL)]
        return top | {"planes": planes, "pools": pools}

    def _filled(self, kind: str, most: int, names: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
        for n in range(most):
            row = {name: self.cleaned_data.get(f"{kind}.{n}.{name}") for name in names}
            if any(row.values()):
                yield n, {name: value or (0 if name in ("gbit", "mtu") else "") for name, value in row.items()}

    def fault(self, bad: profile.Bad) -> None:
        """Show what is wrong beside its field: the document counts filled rows only, the form all."""
        kind, _dot, rest = bad.field.partition(".")
        number, _dot, name = rest.partition(".")
        if number.isdigit():
            most, names = (profile.MOST_PLANES, self.PLANE) if kind == "planes" else (profile.MOST_POOLS, self.POOL)
            places = [n for n, _row in self._filled(kind, most, names)]
            field = f"{kind}.{places[int(number)]}.{name}"
        else:
            field = bad.field
        self.add_error(field if field in self.fields else None, words.profile_text(bad))
