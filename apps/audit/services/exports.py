"""The log for other programs: the same search, as a file that is made while it is read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC
from enum import StrEnum
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from apps.audit.domain import Search, cell
from apps.audit.models import Entry, EntryQuerySet
from apps.audit.services.reading import directory, names_for, plain_sentence, target_name, who
from apps.audit.services.recording import action, record, use_case
from apps.audit.services.search import EXPORT, Reader, found, page, scope

EXPORTED = action(
    "audit.exported",
    _("{actor} exported {count} entries of the audit log as {kind}: {filter}"),
    name=_("Export the audit log"),
)
BATCH = 500
BOM = b"\xef\xbb\xbf"
"""Before CSV only: without it Excel takes Chinese for another encoding. JSON (RFC 8259) must not have one."""

Row = dict[str, Any]


class Format(StrEnum):
    CSV = "csv"
    JSON_LINES = "jsonl"

    @property
    def content_type(self) -> str:
        return {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}[self.value]


@use_case(EXPORTED)
def export(actor: Reader, search: Search, kind: Format) -> Iterator[bytes]:
    """Record the export, and return the file in pieces, newest entry first, in the language that is active now.

    The pieces are made while they are fetched, a short query each. What is recorded from now on is not in it: not even
    the record of this export. Raises Denied.
    """
    entries = found(actor, search, EXPORT)
    newest = entries.order_by("-at", "-pk").first()
    count = entries.count() if newest else 0
    tenants = actor.tenants_where(EXPORT)
    tenant_id = directory().tenant_id(actor, search.tenant) if search.tenant else None
    if tenant_id is None and tenants is not None and len(tenants) == 1:
        (tenant_id,) = tenants
    record(EXPORTED, actor, "audit", tenant_id=tenant_id, count=count, kind=kind.value, filter=search.asked())
    seen = scope(actor, EXPORT)
    render = partial(_rows, scope=seen, language=translation.get_language() or "en")
    return _pieces(kind, entries, newest, render)


async def pulled(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces for an asynchronous server, which would else collect them all before it sends the first."""
    pull = sync_to_async(lambda: next(pieces, b""))
    while (piece := await pull()) != b"":
        yield piece


Render = Callable[[list[Entry]], list[Row]]


def _pieces(kind: Format, entries: EntryQuerySet, newest: Entry | None, render: Render) -> Iterator[bytes]:
    """The file in batches. The newest entry is the first, and everything after it is older: nothing is told twice."""
    if kind is Format.CSV:
        yield BOM + _csv([dict(zip(COLUMNS, COLUMNS, strict=True))])
    batch = [newest] if newest else []
    while batch:
        rows = render(batch)
        yield _csv(rows) if kind is Format.CSV else _json_lines(rows)
        batch = page(entries, before=batch[-1].pk, size=BATCH).entries


COLUMNS = (
    "id", "at", "result", "action", "actor", "actor_name", "tenant", "target", "target_name", "sentence", "params",
    "request_id",
)  # fmt: skip


def _rows(entries: list[Entry], *, scope: EntryQuerySet, language: str) -> list[Row]:
    names = names_for(entries, scope)
    names |= directory().names({f"tenant:{entry.tenant_id}" for entry in entries if entry.tenant_id})
    with translation.override(language):
        return [row(entry, names) for entry in entries]


def row(entry: Entry, names: dict[str, str]) -> Row:
    """An entry for other programs: what is stored, with names and the sentence in the language that is active."""
    return {
        "id": entry.pk,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "result": entry.result,
        "action": entry.action,
        "actor": entry.actor,
        "actor_name": who(entry.actor, names),
        "tenant": names.get(f"tenant:{entry.tenant_id}", "") if entry.tenant_id else "",
        "target": entry.target,
        "target_name": target_name(entry.target, names),
        "sentence": plain_sentence(entry, names),
        "params": entry.params,
        "request_id": entry.request_id,
    }


def _csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    for each in rows:
        params = each["params"]
        told = {**each, "params": params if isinstance(params, str) else json.dumps(params, ensure_ascii=False)}
        writer.writerow([cell(told[column]) for column in COLUMNS])
    return text.getvalue().encode()


def _json_lines(rows: list[Row]) -> bytes:
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in rows).encode()
