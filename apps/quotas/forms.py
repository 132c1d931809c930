"""What people type when they ask, offer, reject and comment. What is right is decided by the domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.quotas.domain.asking import Problem, Terms
from apps.quotas.domain.quantity import BadQuantity, parse
from apps.quotas.models import Allowance
from apps.quotas.services.reading import PoolName
from apps.quotas.services.words import BAD_QUANTITY, problem_text

_MINUTE = "%Y-%m-%dT%H:%M"


def whole(text: str) -> int | Problem:
    """A whole number of accelerators, typed as a quantity (`8`, `1e1`); nothing typed is 0."""
    try:
        found = parse(text.strip() or "0")
    except BadQuantity as bad:
        return Problem("amounts", "not-a-quantity", {"value": text[:40], "why": BAD_QUANTITY[bad.why]})
    return Problem("amounts", "not-whole", {"value": text[:40]}) if found.whole is None else found.whole


def time_of(text: str) -> datetime | None:
    """A time as a field of kind datetime-local sends it, in the reader's zone."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo else timezone.make_aware(found)
    except (ValueError, OverflowError):
        return None


Pools = Sequence[tuple[Allowance, PoolName]]


class _Minute(forms.TextInput):
    input_type = "datetime-local"


class TermsForm(forms.Form):
    """Amounts and a time. Every field is text to Django: what was typed comes back as it was, with our own words."""

    def __init__(self, pools: Pools, data: Any = None, initial: Any = None) -> None:
        super().__init__(data=data, initial=initial)
        self.pools = {f"amount_{row.pk}": row for row, _name in pools}
        for row, pool_name in pools:
            self.fields[f"amount_{row.pk}"] = _amount(row, pool_name)
        for name, label in (("starts_at", _("From")), ("ends_at", _("Until"))):
            self.fields[name] = forms.CharField(required=False, label=label, widget=_Minute({"class": "form-control"}))

    def amounts(self) -> list[forms.BoundField]:
        return [self[name] for name in self.pools]

    def terms(self) -> Terms | None:
        """What was typed, or None with the errors at their fields."""
        self.full_clean()
        amounts = {}
        for name, row in self.pools.items():
            found = whole(self.cleaned_data[name])
            if isinstance(found, Problem):
                self.add_error(name, problem_text(found))
            else:
                amounts[row.pool] = found
        times = {name: time_of(self.cleaned_data[name]) for name in ("starts_at", "ends_at")}
        for name, time in times.items():
            if time is None:
                typed = self.cleaned_data[name][:40]
                problem = Problem(name, "not-a-time" if typed else "required", {"value": typed})
                self.add_error(name, problem_text(problem))
        starts_at, ends_at = times.values()
        return None if self.errors or starts_at is None or ends_at is None else Terms(amounts, starts_at, ends_at)

    def show(self, problems: Iterable[Problem]) -> None:
        """Put the domain's problems beside their fields."""
        for problem in problems:
            field = next(iter(self.pools), None) if problem.field == "amounts" else problem.field
            self.add_error(field if field in self.fields else None, problem_text(problem))


def _amount(row: Allowance, name: PoolName) -> forms.Field:
    attrs = {"class": "form-control", "inputmode": "numeric", "autocomplete": "off", "spellcheck": "false"}
    left = max(0, row.limit - row.held)
    made = forms.CharField(
        required=False,
        strip=False,
        label=name.product,
        help_text=_("In {cluster}. The limit is {limit} now, {left} of it left.").format(
            cluster=name.cluster, limit=row.limit, left=left
        ),
        widget=forms.TextInput(attrs),
    )
    made.unit = _("more")  # type: ignore[attr-defined]  # templates/django/forms/field.html shows it inside
    return made


def _note(label: Any, help_text: Any = "") -> forms.CharField:
    attrs = {"class": "form-control", "rows": "3"}
    return forms.CharField(required=False, label=label, help_text=help_text, widget=forms.Textarea(attrs))


class AskForm(TermsForm):
    def __init__(self, pools: Pools, data: Any = None, initial: Any = None) -> None:
        super().__init__(pools, data, initial)
        self.fields["reason"] = _note(
            _("Why"), _("What it is for, and what happens without it. Both deciders read this.")
        )
        self.fields["key"] = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput())


class OfferForm(TermsForm):
    def __init__(self, pools: Pools, data: Any = None, initial: Any = None) -> None:
        super().__init__(pools, data, initial)
        self.fields["note"] = _note(_("Note to who asked"))


class NoteForm(forms.Form):
    """The reason of a rejection."""

    def __init__(self, data: Any = None) -> None:
        super().__init__(data=data)
        self.fields["note"] = _note(_("Reason"), _("Who asked reads this. What would have to be different?"))


def times(starts_at: datetime, ends_at: datetime) -> dict[str, str]:
    """Times as the fields show them."""
    return {
        "starts_at": timezone.localtime(starts_at).strftime(_MINUTE),
        "ends_at": timezone.localtime(ends_at).strftime(_MINUTE),
    }


def first_times() -> Mapping[str, str]:
    """What the form proposes: from now on, for two weeks."""
    now = timezone.now()
    return times(now, now + timedelta(days=14))
