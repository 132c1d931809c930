"""What a person types to enter a secret. Values are never written back into a page, and never kept as a draft."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.secrets.domain import LONGEST_NOTE, Bad, Kind, Values
from apps.secrets.models import Secret
from apps.secrets.services import Entry
from apps.secrets.services.words import KINDS, fault_text

ROWS = 6


class Concealed(forms.Textarea):
    """Several lines that show as dots where browsers can, and are empty whenever a page is made."""

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        return super().get_context(name, None, attrs)


def _attrs(**more: str) -> dict[str, str]:
    return {"class": "form-control", "autocomplete": "off", "spellcheck": "false", **more}


class ValuesForm(forms.Form):
    """Kind, note and values; `once` is this form's own id."""

    once = forms.UUIDField(widget=forms.HiddenInput, required=False)
    kind = forms.ChoiceField(
        label=_("Kind"),
        choices=[(kind.value, words[0]) for kind, words in KINDS.items()],
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=LONGEST_NOTE,
        help_text=_("What it opens and who to ask, for your team. Not the value."),
        widget=forms.TextInput(attrs=_attrs()),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for row in range(1, ROWS + 1):
            self.fields[f"key_{row}"] = forms.CharField(
                label=pgettext_lazy("of a secret", "Key"),
                required=False,
                strip=True,
                widget=forms.TextInput(attrs=_attrs()),
            )
            self.fields[f"value_{row}"] = forms.CharField(
                label=_("Value"), required=False, strip=False, widget=Concealed(attrs=_attrs(rows="2") | _CONCEALED)
            )

    def rows(self) -> list[tuple[forms.BoundField, forms.BoundField]]:
        return [(self[f"key_{row}"], self[f"value_{row}"]) for row in range(1, ROWS + 1)]

    def extra(self) -> list[tuple[forms.BoundField, forms.BoundField]]:
        """The rows that only few need."""
        return self.rows()[2:]

    def clean(self) -> None:
        """Rows without a key and a value are none. A key that stands twice would hide a value."""
        values: dict[str, str] = {}
        for row in range(1, ROWS + 1):
            key, value = (self.cleaned_data.get(f"{what}_{row}") or "" for what in ("key", "value"))
            if not key and not value:
                continue
            if key in values:
                self.fault(Bad("keys", "twice", key=key))
            values[key] = value
        self.values = Values(values)

    def entry(self) -> Entry:
        """What was entered, of a valid form."""
        data = self.cleaned_data
        return Entry(self.values, data["kind"], data["note"], data["once"] or uuid.uuid4())

    def fault(self, bad: Bad) -> None:
        """Show what is wrong beside its field; a fault of values is the first row's."""
        field = {"keys": "key_1", "values": "value_1"}.get(bad.field, bad.field)
        self.add_error(field if field in self.fields else None, fault_text(bad))

    def again(self) -> None:
        """Be a new form: the next press of the button is another entry."""
        self.data = {**self.data.dict(), "once": str(uuid.uuid4())}  # type: ignore[attr-defined]  # a QueryDict


_CONCEALED = {"class": "form-control mono concealed"}


class EnterForm(ValuesForm):
    """The same with the tenant and a name."""

    tenant = forms.ChoiceField(label=_("For tenant"), widget=forms.Select(attrs={"class": "form-select"}))
    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=40,
        help_text=_("Jobs name it so, and find it as a folder: /run/secrets/maas/<name>/<key>."),
        widget=forms.TextInput(attrs=_attrs(maxlength="40")),
    )
    field_order = ["tenant", "name", "kind", "note"]

    def __init__(self, tenants: Iterable[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].choices = [(tenant.slug, tenant.name) for tenant in tenants]  # type: ignore[attr-defined]


def blank(kind: str = Kind.GENERIC.value) -> dict[str, Any]:
    """What an empty form begins with."""
    keys = {f"key_{row}": key for row, key in enumerate(KINDS[Kind(kind)][2], 1)}
    return {"once": uuid.uuid4(), "kind": kind, **keys}


def of_secret(secret: Secret) -> dict[str, Any]:
    """What a form to replace a secret begins with: everything but its values."""
    keys = {f"key_{row}": key for row, key in enumerate(secret.keys[:ROWS], 1)}
    return {"once": uuid.uuid4(), "kind": secret.kind, "note": secret.note, **keys}
