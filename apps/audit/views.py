"""The audit log as sentences, for auditors and team admins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.db.models import Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from apps.audit import services
from apps.audit.domain import Change, Result, Search, changes
from apps.audit.forms import SearchForm
from apps.audit.models import Entry, EntryQuerySet

COUNTED = 1000
"""Entries are counted up to here."""
TYPED = ("who", "action", "result", "about", "since", "until")
CHOSEN = ("actor", "target", "life")
FILTERS = (*TYPED, *CHOSEN, "tenant")


@dataclass(frozen=True)
class Row:
    """`who` is a name, `action` what is called so in lists. `lead` and `rest` are the sentence, its actor apart where
    it begins with them: a list that has a column for people need not say them twice."""

    entry: Entry
    who: str
    by_person: bool
    action: str
    sentence: SafeString
    lead: SafeString
    rest: SafeString

    @property
    def refused(self) -> bool:
        return self.entry.result == Result.REFUSED


@dataclass(frozen=True)
class Opened:
    """One entry with everything that was recorded. `target` is its name, `tenant` that of its tenant, "" where it has
    none, `day` the query of its actor's day."""

    row: Row
    target: str
    tenant: str
    page: str
    changes: list[Change]
    params: list[tuple[str, Any, object]]
    day: str
    life: str


@require_GET
def entries(request: HttpRequest) -> HttpResponse:
    """Newest first, or as a story (`sort=old`); filters, place and the opened row are in the address."""
    seen = services.scope(request.actor)
    form = SearchForm(request.GET)
    if not form.is_valid():
        context: dict[str, Any] = {"rows": [], "faults": [error for errors in form.errors.values() for error in errors]}
        return render(request, "audit/list.html", context | _around(request, form, {}), status=422)
    search = form.search()
    found = services.found(request.actor, search)
    oldest_first = request.GET.get("sort") == "old"
    before, after = (_number(request.GET.get(key, "")) for key in ("before", "after"))
    page = services.page(found, before=before, after=after, oldest_first=oldest_first)
    names = services.names_for(page.entries, seen)
    about = [search.target or search.life, search.actor]
    names |= {**services.recorded_names(filter(None, about), seen), **services.directory().names(filter(None, about))}
    opened = _number(request.GET.get("open", ""))
    kept = _kept(request)
    context = {
        "rows": [_row(entry, names) for entry in page.entries],
        "opened": next((_opened(entry, names) for entry in page.entries if entry.pk == opened), None),
        "page": {
            "older": f"{kept}&before={page.older}" if page.older else "",
            "newer": f"{kept}&after={page.newer}" if page.newer else "",
        },
        "count": found.order_by()[: COUNTED + 1].count(),
        "relatives": _relatives(search, seen),
    }
    return render(request, "audit/list.html", context | _around(request, form, names))


@require_GET
def entry(request: HttpRequest, entry_id: int) -> HttpResponse:
    """One entry, by an address that a colleague can be given."""
    seen = services.scope(request.actor)
    one = get_object_or_404(seen, pk=entry_id)
    return render(request, "audit/entry.html", {"opened": _opened(one, services.names_for([one], seen))})


def _around(request: HttpRequest, form: SearchForm, names: Mapping[str, str]) -> dict[str, Any]:
    """What stands around the rows: the form as it was filled in, and which searches are at hand."""
    actor = request.actor
    typed = {key: request.GET.get(key, "")[:120] for key in TYPED}
    chosen = [(key, request.GET[key][:120]) for key in CHOSEN if request.GET.get(key)]
    asked = {key: request.GET[key] for key in FILTERS if request.GET.get(key)}
    return {
        "typed": typed,
        "moments": {key: _as_input(form.cleaned_data.get(key)) for key in ("since", "until")},
        "chosen": [(key, value, _chip(key, value, names)) for key, value in chosen],
        "actions": _action_groups(),
        "saved": _saved(),
        "filtered": bool(asked),
        "story": request.GET.get("sort") == "old",
        "everything": actor.tenants_where(services.VIEW) is None,
        "may_export": actor.may(services.EXPORT),
        "export": urlencode(asked),
        "counted": COUNTED,
        "form": form,
    }


def _as_input(moment: datetime | None) -> str:
    """A time as the browser's field wants it, in the reader's zone; "" for none, or for one that could not be read."""
    return f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}" if moment else ""


def _chip(key: str, value: str, names: Mapping[str, str]) -> str:
    if key == "actor":
        return _("Who: {name}").format(name=services.who(value, names))
    name = services.target_name(value, names)
    return _("Life of {name}").format(name=name) if key == "life" else _("Target: {name}").format(name=name)


def _action_groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Actions by the first word of their key, each group by name."""
    known = sorted((each.key.split(".")[0], str(each.name), each.key) for each in services.actions().values())
    return [(word, [(key, name) for _word, name, key in some]) for word, some in groupby(known, itemgetter(0))]


def _saved() -> list[tuple[str, str]]:
    """Searches that auditors make again and again, as queries."""
    today = timezone.localdate()
    return [
        (_("Today"), urlencode({"since": today})),
        (_("Refused, last 7 days"), urlencode({"result": "refused", "since": today - timedelta(days=7)})),
        (_("Roles"), urlencode({"action": "accounts.roles-changed"})),
        (_("Exports"), urlencode({"action": "audit.exported"})),
    ]


def _kept(request: HttpRequest) -> str:
    """The search of an address, without place and opened row."""
    return urlencode({key: request.GET[key] for key in (*FILTERS, "sort") if request.GET.get(key)})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _row(one: Entry, names: Mapping[str, str]) -> Row:
    known = services.actions().get(one.action)
    name = str(known.name) if known else one.action
    by_person = one.actor.startswith("user:")
    who, said = services.who(one.actor, names), services.sentence(one, names)
    lead = format_html("<b>{}</b>", who)
    lead = lead if said.startswith(lead) else SafeString()
    return Row(one, who, by_person, name, said, lead, SafeString(said[len(lead) :]))


def _opened(one: Entry, names: Mapping[str, str]) -> Opened:
    words = services.told(one)
    pairs = changes(one.params)
    if named := one.params.get("name"):
        names = {one.target: str(named), **names}
    day = timezone.localtime(one.at).date()
    return Opened(
        row=_row(one, names),
        target=services.target_name(one.target, names),
        tenant=_tenant(one),
        page=services.page_of(one.target),
        changes=pairs,
        params=[(key, value, words[key]) for key, value in one.params.items()],
        day=urlencode({"actor": one.actor, "since": day, "until": day, "sort": "old"}),
        life=urlencode({"life": one.target, "sort": "old"}),
    )


def _tenant(one: Entry) -> str:
    """Its tenant as people call it today; by number where it is gone."""
    key = f"tenant:{one.tenant_id}"
    return services.directory().names([key]).get(key, str(one.tenant_id)) if one.tenant_id else ""


def _relatives(search: Search, seen: EntryQuerySet) -> list[tuple[str, str, str]]:
    """What the life of something takes in and the reader may see: id, name and page of each, what began first first."""
    if not search.life:
        return []
    first = seen.filter(target__in=services.family(search.life)).values("target").annotate(first=Min("at"))
    told = list(first.order_by("first").values_list("target", flat=True))
    names = {**services.recorded_names(told, seen), **services.directory().names(told)}
    return [(each, services.target_name(each, names), services.page_of(each)) for each in told]
