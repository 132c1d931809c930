"""What a page is sent, as the texts that all pages at one place share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from apps.streams.domain.frames import Cursor, Entry, Kind, shortened_body

MESSAGE_BYTES = 256 << 10
BEAT = '{"t": "beat"}'


@dataclass(frozen=True, slots=True)
class Item:
    """A frame on its way to the pages; `text` is its JSON, in which `n` is the number of a log frame's first line."""

    entry: Entry
    text: str

    @classmethod
    def of(cls, entry: Entry) -> Item:
        if entry.kind is not Kind.LOG:
            return cls(entry, entry.body.decode())
        text = shortened_body(entry.body).decode()
        return cls(entry, f'{{"n":{entry.lines_before + 1},{text[1:]}')


def hint_message(topic: str) -> str:
    return json.dumps({"t": "hint", "topic": topic})


def gap_message(topic: str, missing: int | None) -> str:
    """So many lines are missing; None where nobody knows how many."""
    return json.dumps({"t": "gap", "topic": topic, "n": missing})


def messages(topic: str, cursor: Cursor | None, items: Iterable[Item]) -> tuple[list[str], Cursor | None]:
    """What a page at this place is sent of frames in order, and its place afterwards: frames that it has are left out,
    and missing lines are said to be, except before the first frame of all."""
    texts: list[str] = []
    batch: list[Item] = []
    size = 0
    for item in items:
        entry, missing = item.entry, 0 if cursor is None else _missing(cursor, item.entry)
        if missing is not None and missing < 0:
            continue
        if batch and (missing != 0 or batch[0].entry.kind != entry.kind or size > MESSAGE_BYTES):
            texts.append(_message(topic, batch))
            batch, size = [], 0
        if missing != 0:
            texts.append(gap_message(topic, missing))
        batch.append(item)
        size += len(item.text)
        cursor = entry.after
    if batch:
        texts.append(_message(topic, batch))
    return texts, cursor


def _missing(cursor: Cursor, entry: Entry) -> int | None:
    """How many lines are missing between a place and an entry; None where nobody knows, -1 for an entry before it."""
    if cursor.birth != entry.after.birth:
        return None
    return -1 if entry.after.entry <= cursor.entry else entry.lines_before - cursor.lines


def _message(topic: str, batch: list[Item]) -> str:
    last = batch[-1].entry
    head = json.dumps({"t": last.kind.value, "topic": topic, "cursor": str(last.after)})
    return f'{head[:-1]}, "frames": [{",".join(item.text for item in batch)}]}}'
