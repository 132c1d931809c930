"""What a page is sent, made once for all pages at one place."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from apps.streams.domain.frames import Cursor, Entry, Kind, shortened_body
from apps.streams.domain.wire import Buffer, Message, joined

MESSAGE_BYTES = 256 << 10
BEAT = '{"t": "beat"}'

Made = tuple[list[Message], Cursor | None]
"""What a page is sent, and its place afterwards."""


@dataclass(frozen=True, slots=True)
class Item:
    """A frame on its way to the pages; `parts` are its JSON, in which `n` is the number of a log frame's first line."""

    entry: Entry
    parts: tuple[Buffer, ...]

    @classmethod
    def of(cls, entry: Entry) -> Item:
        if entry.kind is not Kind.LOG:
            return cls(entry, (entry.body,))
        return cls(entry, (b'{"n":%d,' % (entry.lines_before + 1), memoryview(shortened_body(entry.body))[1:]))

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


def hint_message(topic: str) -> str:
    return json.dumps({"t": "hint", "topic": topic})


def gap_message(topic: str, missing: int | None) -> str:
    """So many lines are missing; None where nobody knows how many."""
    return json.dumps({"t": "gap", "topic": topic, "n": missing})


def messages(topic: str, cursor: Cursor | None, items: Iterable[Item]) -> Made:
    """What a page at this place is sent of frames in order, and its place afterwards: frames that it has are left out,
    and missing lines are said to be, except before the first frame of all."""
    made: list[Message] = []
    batch: list[Item] = []
    size = 0
    for item in items:
        entry, missing = item.entry, 0 if cursor is None else _missing(cursor, item.entry)
        if missing is not None and missing < 0:
            continue
        if batch and (missing != 0 or batch[0].entry.kind != entry.kind or size > MESSAGE_BYTES):
            made.append(_message(topic, batch))
            batch, size = [], 0
        if missing != 0:
            made.append(Message.of(gap_message(topic, missing).encode()))
        batch.append(item)
        size += item.size
        cursor = entry.after
    if batch:
        made.append(_message(topic, batch))
    return made, cursor


def _missing(cursor: Cursor, entry: Entry) -> int | None:
    """How many lines are missing between a place and an entry; None where nobody knows, -1 for an entry before it."""
    if cursor.birth != entry.after.birth:
        return None
    return -1 if entry.after.entry <= cursor.entry else entry.lines_before - cursor.lines


def _message(topic: str, batch: list[Item]) -> Message:
    last = batch[-1].entry
    head = json.dumps({"t": last.kind.value, "topic": topic, "cursor": str(last.after)})
    return Message.of(head[:-1].encode(), b', "frames": [', *joined([item.parts for item in batch]), b"]}")
