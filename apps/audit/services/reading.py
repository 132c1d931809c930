"""What an entry says to a reader: names for ids, words for codes, a sentence in the language that is active."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KT
from django.utils import formats
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.audit.domain import Result
from apps.audit.models import Entry, EntryQuerySet
from apps.audit.services.plurals import numbered
from apps.audit.services.recording import actions

Words = Callable[[Any], object]
"""What to show a reader for a recorded value."""

_words: dict[tuple[str, str], Words] = {}
_systems: dict[str, Any] = {}


def register_words(key: str, **params: Words) -> None:
    """Called by an app's ready(): how the parameters of an action that are codes read in words."""
    _words.update({(key, param): words for param, words in params.items()})


def register_system(name: str, words: Any) -> None:
    """Called by an app's ready(): what people call the part of the system that acts as `system:<name>`."""
    _systems[f"system:{name}"] = words


def told(entry: Entry) -> dict[str, object]:
    """The parameters of an entry as a reader is told them."""
    return {param: _words.get((entry.action, param), _as_it_is)(value) for param, value in entry.params.items()}


def _as_it_is(value: Any) -> object:
    return value


def system_name(actor: str) -> str:
    """What people call a part of the system, by its audit id; its bare name where nobody said."""
    return str(_systems.get(actor) or actor.removeprefix("system:"))


def systems_named(text: str) -> list[str]:
    """The audit ids of the parts of the system whose name holds this text."""
    return [each for each in _systems if text.casefold() in system_name(each).casefold()]


@dataclass(frozen=True)
class Directory:
    """What reading the log needs of whoever knows people and tenants. `names` maps audit ids of people and tenants to
    names, those of nobody known left out; `tenant_id` finds the tenant of a slug that the reader may see; `people`
    finds the audit ids of those whose name holds a text."""

    names: Callable[[Iterable[str]], Mapping[str, str]]
    tenant_id: Callable[[Any, str], int | None]
    people: Callable[[str], list[str]]


_directory: list[Directory] = []


def register_directory(found: Directory) -> None:
    """Called once, by the app that keeps people, in its ready()."""
    _directory[:] = [found]


def directory() -> Directory:
    return _directory[0]


@dataclass(frozen=True)
class TargetKind:
    """What there is to know of targets `kind:key`. `word` is what one is called; `page` gives its address, "" for none;
    `relatives` the targets that a target is made from, made into or used by, so that the life of each can be told."""

    word: str | Promise
    page: Callable[[str], str] | None = None
    relatives: Callable[[str], Iterable[str]] | None = None


Relatives = Callable[[str], Iterable[str]]

_kinds: dict[str, TargetKind] = {}
_relatives: dict[str, list[Relatives]] = {}


def register_target(kind: str, known: TargetKind) -> None:
    """Called by an app's ready(), for each kind of target that its actions name."""
    if kind in _kinds:
        raise ValueError(f"The kind of target {kind} is registered twice.")
    _kinds[kind] = known


def register_relatives(kind: str, find: Relatives) -> None:
    """Called by an app's ready(): relatives that it knows of another app's targets. `find` is given the key."""
    _relatives.setdefault(kind, []).append(find)


def relatives_of(target: str) -> list[str]:
    """What a target is made from, made into or used by, as far as any app knows."""
    kind, _colon, key = target.partition(":")
    known = _kinds.get(kind)
    finds = [*([known.relatives] if known and known.relatives else []), *_relatives.get(kind, [])]
    return list(dict.fromkeys(near for find in finds for near in find(key))) if key else []


def target_kinds() -> dict[str, TargetKind]:
    return dict(_kinds)


def page_of(target: str) -> str:
    """The address of what an entry speaks of, "" where it has none."""
    kind, _colon, key = target.partition(":")
    known = _kinds.get(kind)
    return known.page(key) if known and known.page and key else ""


def names_for(entries: Iterable[Entry], scope: EntryQuerySet) -> dict[str, str]:
    """Names for everybody and everything that these entries speak of, by audit id. What has no name of its own bears
    the last one recorded with it, as far as the reader sees (`scope`): so a name outlives its object."""
    entries = list(entries)
    ids = {entry.actor for entry in entries} | {entry.target for entry in entries}
    names = dict(directory().names(ids))
    wanted = {entry.target for entry in entries if _names_its_target(entry)} - names.keys()
    return names | recorded_names(wanted, scope) if wanted else names


def recorded_names(targets: Iterable[str], scope: EntryQuerySet) -> dict[str, str]:
    """The last `name` recorded with each of these targets."""
    named = scope.filter(target__in=list(targets), params__has_key="name")
    last = named.order_by("target", "-at", "-id").distinct("target")
    return dict(last.annotate(found=KT("params__name")).values_list("target", "found"))


def _names_its_target(entry: Entry) -> bool:
    known = actions().get(entry.action)
    return entry.result == Result.REFUSED or known is None or "{target}" in numbered(known.sentence, {})


def who(audit_id: str, names: Mapping[str, str]) -> str:
    """Who an actor is, in words where there are any."""
    if audit_id in names:
        return names[audit_id]
    if audit_id.startswith("user:"):
        return _("somebody erased")
    return _("somebody unknown") if audit_id == "anonymous" else system_name(audit_id)


def target_name(target: str, names: Mapping[str, str]) -> str:
    """What an entry speaks of: a person or a tenant by name, anything else with the word for its kind."""
    kind, colon, key = target.partition(":")
    if kind == "user" or (target in names and kind == "tenant") or not colon:
        return who(target, names)
    known = _kinds.get(kind)
    return f"{known.word if known else kind} {names.get(target, key)}"


class _Bold(dict[str, Any]):
    """The words of a sentence, in bold; what was not recorded shows as …"""

    def __getitem__(self, key: str) -> SafeString:
        return format_html("<b>{}</b>", super().__getitem__(key)) if key in self else format_html("…")


class _Plain(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "…"


def sentence(entry: Entry, names: Mapping[str, str]) -> SafeString:
    """An entry as HTML: its words are escaped, and bold."""
    return SafeString(_pattern(entry).format_map(_Bold(_said(entry, names))))


def plain_sentence(entry: Entry, names: Mapping[str, str]) -> str:
    return _pattern(entry).format_map(_Plain(_said(entry, names)))


def _pattern(entry: Entry) -> str:
    known = actions().get(entry.action)
    if entry.result == Result.REFUSED:
        return str(known.refusal if known and known.refusal else _("{actor} was refused “{action}” ({target})"))
    return numbered(known.sentence, entry.params) if known else "{actor} {action} {target}"


def _said(entry: Entry, names: Mapping[str, str]) -> dict[str, object]:
    known = actions().get(entry.action)
    words = {"actor": who(entry.actor, names), "target": target_name(entry.target, names)}
    figures = {key: _figure(value) for key, value in told(entry).items()}
    return {**figures, **words, "action": known.name if known else entry.action}


def _figure(value: object) -> object:
    """A number as people read it, thousands apart."""
    if isinstance(value, int) and not isinstance(value, bool):
        return formats.number_format(value, use_l10n=True, force_grouping=True)
    return value
