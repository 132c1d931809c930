"""Reading a topic's ring by line number: any page of it without walking there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from apps.streams.domain.frames import Cursor, Entry, Kind, unpack_log
from apps.streams.domain.lines import Block
from apps.streams.services.buffer import Keys, entry_of, redis

BATCH_ENTRIES = 50

# Entries are named by the millisecond they were written in, and their running count of lines (field 10) never falls.
_FIND = """
local stream, wanted = KEYS[1], tonumber(ARGV[1])
local function at(from) return redis.call('XRANGE', stream, from, '+', 'COUNT', 1)[1] end
local function ms(entry) return tonumber(string.match(entry[1], '^%d+')) end
local oldest, newest = at('-'), redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
if not oldest or tonumber(newest[2][10]) < wanted then return false end
if tonumber(oldest[2][10]) >= wanted then return oldest[1] end
local low, high = ms(oldest) + 1, ms(newest)
while low < high do
  local middle = math.floor((low + high) / 2)
  local entry = at(string.format('%d', middle))
  if tonumber(entry[2][10]) >= wanted then high = middle else low = ms(entry) + 1 end
end
local entry = at(string.format('%d', low - 1))
while tonumber(entry[2][10]) < wanted do entry = at('(' .. entry[1]) end
return entry[1]
"""


@dataclass(frozen=True)
class Extent:
    """The numbers of the first and the last line that are there (`last` is `first` - 1 where none is), and the cursor
    to follow on from. `is_cut`: newer ones may be there, but cannot be read now."""

    first: int
    last: int
    cursor: Cursor | None = None
    is_cut: bool = False


def extent(topic: str) -> Extent:
    """Raises RedisError."""
    pipe, keys = redis().pipeline(transaction=True), Keys.of(topic)
    pipe.hmget(keys.meta, "lines", "lines_gone")
    pipe.xrevrange(keys.stream, "+", "-", 1)
    counts, newest = pipe.execute()
    last, gone = (int(count or 0) for count in counts)
    return Extent(gone + 1, last, entry_of(newest[0]).after if newest else None)


def forwards(topic: str, start: int) -> Iterator[Block]:
    """Frames in order, from the one with line `start`; one without lines may come before. Raises RedisError."""
    for entry in entries(topic, start - 1):
        block = Block(entry.lines_before + 1, unpack_log(entry.body))
        if block.last >= start or not block.frame.lines:
            yield block


def backwards(topic: str, end: int) -> Iterator[Block]:
    """Frames from the one with line `end` back to the oldest; one without lines may come before. Raises RedisError."""
    stream = Keys.of(topic).stream
    begin = (_find(stream, end + 1) or "+") if end > 0 else ""
    while begin:
        raw = cast("list[Any]", redis().xrevrange(stream, begin, "-", BATCH_ENTRIES))
        for entry in _logs(raw):
            block = Block(entry.lines_before + 1, unpack_log(entry.body))
            if block.first <= end or not block.frame.lines:
                yield block
        begin = f"({raw[-1][0].decode()}" if len(raw) == BATCH_ENTRIES else ""


def entries(topic: str, start: int, after: str = "") -> Iterator[Entry]:
    """Log frames in order as they are stored, from the one with line `start`, or behind an entry. Raises RedisError."""
    stream = Keys.of(topic).stream
    begin = f"({after}" if after else _find(stream, max(1, start))
    while begin:
        raw = cast("list[Any]", redis().xrange(stream, begin, "+", BATCH_ENTRIES))
        yield from _logs(raw)
        begin = f"({raw[-1][0].decode()}" if len(raw) == BATCH_ENTRIES else ""


def _find(stream: str, line: int) -> str:
    """The id of the entry with this line, or of the oldest where that is gone; "" where it has not come yet."""
    found = redis().eval(_FIND, 1, stream, str(line))
    return cast("bytes", found).decode() if found else ""


def _logs(raw: list[Any]) -> Iterator[Entry]:
    return (entry for entry in map(entry_of, raw) if entry.kind is Kind.LOG)
