"""What a person may type on the settings page."""

from __future__ import annotations

import zoneinfo

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from apps.accounts.models import User

THEMES = [("auto", _("As the system")), ("light", _("Light")), ("dark", _("Dark"))]


def _zones() -> list[tuple[str, object]]:
    names = sorted(name for name in zoneinfo.available_timezones() if "/" in name)
    return [("", _("As the browser")), *((name, name) for name in names)]


def _lives() -> list[tuple[int, str]]:
    return [(days, ngettext("%(days)d day", "%(days)d days", days) % {"days": days}) for days in (7, 30, 90, 365)]


def _select() -> forms.Select:
    return forms.Select(attrs={"class": "form-select"})


class PreferencesForm(forms.Form):
    language = forms.ChoiceField(
        label=_("Language"), required=False, choices=[("", _("As the browser")), *settings.LANGUAGES], widget=_select()
    )
    theme = forms.ChoiceField(label=_("Appearance"), required=False, choices=THEMES, widget=_select())
    timezone = forms.ChoiceField(label=_("Time zone"), required=False, choices=_zones, widget=_select())

    @classmethod
    def of(cls, user: User) -> PreferencesForm:
        return cls(initial={"language": user.language, "theme": user.theme or "auto", "timezone": user.timezone})


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
        help_text=_("Where it is used, to recognise it later: “nightly evaluation”."),
    )
    days = forms.TypedChoiceField(
        label=_("Good for"),
        coerce=int,
        widget=_select(),
        initial=90,
        choices=_lives,
    )
    read_only = forms.BooleanField(
        label=_("Read only"), required=False, help_text=_("It can look at everything you can, and change nothing.")
    )
