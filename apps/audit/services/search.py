"""Finding entries: whose, what, when, and what belongs together; pages by key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db.models import Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Lower

from apps.audit.domain import Search
from apps.audit.models import NAME_LIMIT, NAMED, Entry, EntryQuerySet
from apps.audit.services.reading import directory, relatives_of, systems_named, target_kinds
from apps.audit.services.recording import Acting

VIEW, EXPORT = "audit.view", "audit.export"
PAGE = 50
NAMESAKES = 50
"""How many things whose names begin with a text, or hold it, are looked at."""
RECENT = 2_000
"""Among so many entries, the newest, any part of a name is looked for; in all others only its beginning."""
FAMILY = 60
"""How many targets the life of one takes in at most."""


class Reader(Acting, Protocol):
    """Whoever reads: `tenants_where` says of which tenants they may (None: of all), `require` raises Denied."""

    def tenants_where(self, permission: Any) -> frozenset[int] | None: ...
    def require(self, permission: Any, tenant_id: int | None = None, *, target: str = "") -> None: ...


def scope(reader: Reader, right: str = VIEW) -> EntryQuerySet:
    """Everything that this reader may see. Raises Denied."""
    reader.require(right, target="audit")
    return Entry.objects.of_tenants(reader.tenants_where(right))


def found(reader: Reader, search: Search, right: str = VIEW) -> EntryQuerySet:
    """What the reader may see of what they look for. Raises Denied."""
    entries = seen = scope(reader, right)
    for field in ("actor", "action", "result", "target"):
        if value := getattr(search, field):
            entries = entries.filter(**{field: value})
    if search.who:
        entries = entries.filter(actor__in=_people(search.who))
    if search.about:
        entries = entries.filter(target__in=_targets(search.about, seen))
    if search.life:
        entries = entries.filter(target__in=family(search.life))
    if search.tenant:
        entries = entries.filter(tenant_id=directory().tenant_id(reader, search.tenant) or 0)
    if search.since:
        entries = entries.filter(at__gte=search.since)
    return entries.filter(at__lt=search.until) if search.until else entries


def _people(text: str) -> list[str]:
    """Audit ids for a name, a part of one, or an id."""
    return [text] if ":" in text else [*directory().people(text), *systems_named(text)]


def _targets(text: str, seen: EntryQuerySet) -> list[str]:
    """Targets that were recorded under a name which begins with this, or lately one that holds it, whatever its case;
    and those whose id this is."""
    if ":" in text:
        return [text]
    begin = seen.annotate(named=NAMED).filter(named__startswith=Lower(Value(text[:NAME_LIMIT]))).order_by("named")
    named = list(begin.values_list("target", flat=True)[:RECENT])
    newest = seen.order_by("-at", "-pk").values_list("target", KT("params__name"))
    named += [target for target, name in newest[:RECENT] if name and text.casefold() in name.casefold()]
    return [*list(dict.fromkeys(named))[:NAMESAKES], *(f"{kind}:{text}" for kind in target_kinds())]


def family(target: str) -> list[str]:
    """The target and what it is related to, near ones first: a job, the versions made from it, their deployments."""
    known = [target]
    for each in known:  # grows while it is walked
        known += [near for near in relatives_of(each) if near not in known]
        if len(known) >= FAMILY:
            break
    return known[:FAMILY]


@dataclass(frozen=True)
class Page:
    """Entries in the order of the reader; `older` and `newer` are the ids to go on from, 0 where there is no more."""

    entries: list[Entry]
    older: int
    newer: int


def page(
    entries: EntryQuerySet, *, before: int = 0, after: int = 0, oldest_first: bool = False, size: int = PAGE
) -> Page:
    """One page: from the newest (or the oldest), before an entry, or after one. One query, and one for the place."""
    place = Entry.objects.filter(pk=after or before).values_list("at", "pk").first() if after or before else None
    upwards = bool(after) or (oldest_first and not before)
    if place:
        entries = entries.filter(_beyond(*place, newer=upwards))
    order = ("at", "pk") if upwards else ("-at", "-pk")
    some = list(entries.order_by(*order)[: size + 1])
    more, some = len(some) > size, some[:size]
    if not some:
        return Page([], 0, 0)
    further, back = (some[-1].pk if more else 0), (some[0].pk if place else 0)
    older, newer = (back, further) if upwards else (further, back)
    return Page(some if upwards is oldest_first else some[::-1], older, newer)


def _beyond(at: datetime, pk: int, *, newer: bool) -> Q:
    """Entries past a place. The first condition repeats what the second says, for the index."""
    if newer:
        return Q(at__gte=at) & (Q(at__gt=at) | Q(pk__gt=pk))
    return Q(at__lte=at) & (Q(at__lt=at) | Q(pk__lt=pk))
