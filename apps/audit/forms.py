"""What an address or a form may ask of the log."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext_lazy as _

from apps.audit.domain import Search

LONGEST = 120
RESULTS = (("", _("Any result")), ("done", _("done")), ("refused", _("refused")))


class MomentField(forms.CharField):
    """A day or a moment: `2026-11-30`, `2026-11-30T14:05` in the reader's zone, or with a zone of its own. A day that
    ends a time means its end."""

    def __init__(self, *, ends: bool, label: Any) -> None:
        super().__init__(required=False, max_length=40, label=label)
        self.ends = ends

    def clean(self, value: object) -> datetime | None:
        text = super().clean(value).strip()
        if not text:
            return None
        try:
            found = parse_date(text) or parse_datetime(text.replace(" ", "+"))
            return self._moment(found) if found else self._refuse()
        except (ValueError, OverflowError):
            return self._refuse()

    def _moment(self, found: date) -> datetime:
        if not isinstance(found, datetime):
            found = datetime.combine(found + timedelta(days=self.ends), time())
        return found if timezone.is_aware(found) else timezone.make_aware(found)

    def _refuse(self) -> datetime:
        raise ValidationError(_("This is no time. Write it as 2026-11-30 or 2026-11-30T14:05."))


def _text(label: Any, longest: int = LONGEST) -> forms.CharField:
    return forms.CharField(required=False, max_length=longest, label=label)


class SearchForm(forms.Form):
    """Its data is a query string; fields that are not there do not narrow."""

    who = _text(_("Who"))
    actor = _text(_("Who, by id"))
    action = _text(_("Action"))
    result = forms.ChoiceField(choices=RESULTS, required=False, label=_("Result"))
    about = _text(_("About"))
    target = _text(_("Target"))
    life = _text(_("Life of"))
    tenant = _text(_("Tenant"), 30)
    since = MomentField(ends=False, label=_("From"))
    until = MomentField(ends=True, label=_("Until"))

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or {}
        since, until = cleaned.get("since"), cleaned.get("until")
        if since and until and until <= since:
            self.add_error("until", _("It ends before it begins."))
        return cleaned

    def search(self) -> Search:
        """What is asked, of a form that is valid."""
        return Search(**self.cleaned_data)
