"""The audit log as sentences, for auditors and team admins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from apps.audit import services
from apps.audit.domain import Result
from apps.audit.models import Entry

PAGE = 50
RIGHT = "audit.view"
FILTERS = ("actor", "action", "result", "target")


@dataclass(frozen=True)
class Row:
    """`who` is a name, `action` what is called so in lists."""

    entry: Entry
    who: str
    by_person: bool
    action: str
    sentence: SafeString

    @property
    def refused(self) -> bool:
        return self.entry.result == Result.REFUSED


@require_GET
def entries(request: HttpRequest) -> HttpResponse:
    """Newest first; filters and place are in the address."""
    actor = request.actor
    actor.require(RIGHT, target="audit")
    found = _filtered(request, Entry.objects.of_tenants(actor.tenants_where(RIGHT)))
    some, older, newer = _page(request, found)
    chosen = {key: request.GET[key][:120] for key in ("actor", "target") if request.GET.get(key)}
    ids = {entry.actor for entry in some} | {entry.target for entry in some}
    names = services.directory().names(ids)
    query = {key: request.GET[key] for key in (*FILTERS, "tenant") if request.GET.get(key)}
    kept = f"{urlencode(query)}&" if query else ""
    context = {
        "rows": [_row(entry, names) for entry in some],
        "page": {
            "older": f"{kept}before={older}" if older else "",
            "newer": f"{kept}after={newer}" if newer else "",
        },
        "actions": sorted(((each.key, str(each.name)) for each in services.actions().values()), key=itemgetter(1)),
        "filters": [(key, value, _who(value, names)) for key, value in chosen.items()],
        "filtered": bool(query),
        "everything": actor.tenants_where(RIGHT) is None,
    }
    return render(request, "audit/list.html", context)


def _filtered(request: HttpRequest, found: QuerySet[Entry]) -> QuerySet[Entry]:
    for key in FILTERS:
        if value := request.GET.get(key):
            found = found.filter(**{key: value[:120]})
    if slug := request.GET.get("tenant"):
        found = found.filter(tenant_id=services.directory().tenant_id(request.actor, slug[:30]) or 0)
    return found


def _page(request: HttpRequest, found: QuerySet[Entry]) -> tuple[list[Entry], int, int]:
    """Entries, and the ids that lead to older and newer ones (0 for none)."""
    before, after = (_number(request.GET.get(key, "")) for key in ("before", "after"))
    if after:
        some = list(found.filter(pk__gt=after).order_by("pk")[: PAGE + 1])
        more = len(some) > PAGE
        some = some[:PAGE][::-1]
        return some, some[-1].pk if some else 0, some[0].pk if more else 0
    some = list((found.filter(pk__lt=before) if before else found).order_by("-pk")[: PAGE + 1])
    more = len(some) > PAGE
    some = some[:PAGE]
    return some, some[-1].pk if more else 0, some[0].pk if before and some else 0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


class _Told(dict[str, Any]):
    """The words of a sentence, in bold; what was not recorded shows as …"""

    def __getitem__(self, key: str) -> SafeString:
        return format_html("<b>{}</b>", super().__getitem__(key)) if key in self else format_html("…")


def _row(entry: Entry, names: Mapping[str, str]) -> Row:
    who, known = _who(entry.actor, names), services.actions().get(entry.action)
    told = _Told(services.told(entry))
    told |= {"actor": who, "target": _who(entry.target, names), "action": known.name if known else entry.action}
    if entry.result == Result.REFUSED:
        pattern = known.refusal if known and known.refusal else _("{actor} was refused “{action}” ({target})")
    else:
        pattern = known.sentence if known else "{actor} {action} {target}"
    name = str(known.name) if known else entry.action
    return Row(entry, who, entry.actor.startswith("user:"), name, SafeString(str(pattern).format_map(told)))


def _who(audit_id: str, names: Mapping[str, str]) -> str:
    """Who or what an audit id stands for, in words where there are any."""
    if audit_id in names:
        return names[audit_id]
    if audit_id.startswith("user:"):
        return _("somebody erased")
    return _("somebody unknown") if audit_id == "anonymous" else services.system_name(audit_id)
