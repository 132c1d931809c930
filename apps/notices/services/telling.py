"""Telling people something that they read in their inbox, in their own language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.notices.domain import KEPT_DAYS, Kind, Words, digest
from apps.notices.models import Notice
from apps.streams.services import hint

FORGOTTEN = 100
"""So many old lines go at most whenever a new one comes."""

_kinds: dict[str, Kind] = {}


def kind(
    key: str,
    sentence: Any,
    *,
    name: Any = "",
    icon: str = "bell",
    tone: str = "blue",
    words: Mapping[str, Words] | None = None,
) -> Kind:
    """Declare a kind of notice, once, in the app whose services tell it. `{…}` in the sentence are its parameters;
    `words` says how those that are codes read, by parameter; `tone` as for pills."""
    if key in _kinds:
        raise ValueError(f"The kind of notice {key} is declared twice.")
    return _kinds.setdefault(key, Kind(key, sentence, name or key, icon, tone, words or {}))


def kinds() -> dict[str, Kind]:
    """All declared kinds by key."""
    return dict(_kinds)


def register_words(what: Kind, **words: Words) -> None:
    """Called by an app's ready(): how parameters read that are codes, where their words lie above the kind."""
    _kinds[what.key] = replace(what, words={**what.words, **words})


def topic_of(user_pk: object) -> str:
    """What a person's open pages follow to hear of a new notice."""
    return f"inbox.{user_pk}"


def tell(user_pks: Iterable[object], what: Kind, *, link: str, tenant_id: int | None = None, **params: Any) -> None:
    """Put a line into these people's inboxes, in the caller's transaction.

    `link` is a path of the portal; `params` are JSON values for the sentence, never a secret. The same again (kind,
    link and parameters) is not told to somebody who has not read it yet, so a step that runs twice tells once.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("tell() belongs into the transaction of the change it tells of.")
    people = sorted({str(pk) for pk in user_pks})
    same = digest(what.key, link, params)
    values = {"kind": what.key, "link": link, "tenant_id": tenant_id, "params": params, "digest": same}
    _forget_old()
    Notice.objects.bulk_create([Notice(user_id=pk, **values) for pk in people], ignore_conflicts=True)
    for pk in people:
        hint(topic_of(pk))


class _Told(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "…"


def sentence(notice: Notice) -> str:
    """A notice in the language that is active."""
    known = _kinds.get(notice.kind)
    if known is None:
        return _("Something that the portal no longer has words for ({kind})").format(kind=notice.kind)
    told = {key: known.words[key](value) if key in known.words else value for key, value in notice.params.items()}
    return audit.numbered(known.sentence, notice.params).format_map(_Told(told))


@dataclass(frozen=True)
class Line:
    """One notice in words; `kind` is how it looks, None when the portal no longer knows it."""

    notice: Notice
    text: str
    kind: Kind | None


def lines(found: Iterable[Notice]) -> list[Line]:
    """Notices in the language that is active."""
    return [Line(notice, sentence(notice), _kinds.get(notice.kind)) for notice in found]


def _forget_old() -> None:
    """Delete some of what nobody can read any more. Done whenever somebody is told something, it keeps pace, and needs
    no clock of its own; who tells something at the same time takes others."""
    old = Notice.objects.for_system().filter(at__lt=timezone.now() - timedelta(days=KEPT_DAYS)).order_by("at")
    if found := list(old.select_for_update(skip_locked=True).values_list("pk", flat=True)[:FORGOTTEN]):
        Notice.objects.for_system().filter(pk__in=found).delete()
