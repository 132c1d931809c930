"""The recent log lines and points of each topic, in Redis Streams, with the places their readers have come to.

For each topic: a stream of frames, a hash with its birth mark and running totals, a hash with one position for each
source, and one with the points that are still to be stored. A frame, the position after it and the points in it are
written in one script, so that a writer killed at any moment neither loses nor doubles a line, nor loses a point. Where
somebody keeps the log for good (`archive`), lines are trimmed once they are kept, or when twice as many have gathered
as the ring should hold. What is lost with Redis is read again from the archive and from the cluster.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from django.conf import settings
from redis import Redis

from apps.streams.domain.frames import Cursor, Entry, Frame, Kind, Packed, pack

LINES_KEPT = 100_000
BYTES_KEPT = 64 << 20
SECONDS_KEPT = 7 * 24 * 3600
TAIL_LINES = 1000
READ_ENTRIES = 200
FOLLOWED_LINES = 5000
"""A page shows no more: one that is farther behind goes on with the last lines."""

ANY = "*"

# Numbers as text: Lua would round them to doubles when they leave HINCRBY.
SCRIPT = """
local stream, meta, places, owed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local source, expected, place, birth, seconds = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local max_lines, max_bytes, least = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local first = 11
if expected ~= '*' then
  if redis.call('HEXISTS', meta, 'kept') == 0 then return 0 end
  if tonumber(redis.call('HGET', meta, 'lines') or 0) < least then return 0 end
  if (redis.call('HGET', places, source) or '') ~= expected then return 0 end
end
redis.call('HSETNX', meta, 'birth', birth)
birth = redis.call('HGET', meta, 'birth')
local lines, bytes = 0, 0
local read = 0
for i = first, #ARGV, 3 do if ARGV[i] == 'log' then read = i end end
for i = first, #ARGV, 3 do
  lines = redis.call('HINCRBY', meta, 'lines', ARGV[i + 1])
  bytes = redis.call('HINCRBY', meta, 'bytes', #ARGV[i + 2])
  local entry = {'k', ARGV[i], 'c', ARGV[i + 1], 'b', ARGV[i + 2],
                 'g', birth, 'n', string.format('%d', lines), 's', string.format('%d', bytes)}
  if i == read and expected ~= '*' then
    for _, value in ipairs({'o', source, 'p', place}) do table.insert(entry, value) end
  end
  redis.call('XADD', stream, '*', unpack(entry))
end
if expected ~= '*' then redis.call('HSET', places, source, place) end
if ARGV[9] ~= '' then redis.call('HSET', owed, ARGV[9], ARGV[10]) end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, seconds) end
if #ARGV < first then return 1 end
local gone = redis.call('HMGET', meta, 'lines_gone', 'bytes_gone', 'kept')
local kept = tonumber(gone[3] or lines)
local slack = 1.02
if lines - (tonumber(gone[1]) or 0) < max_lines * slack and bytes - (tonumber(gone[2]) or 0) < max_bytes * slack then
  return 1
end
while true do
  local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local n, s = oldest[2][10], oldest[2][12]
  local over = math.max((lines - tonumber(n)) / max_lines, (bytes - tonumber(s)) / max_bytes)
  if over < 1 or (tonumber(n) > kept and over < 2) then break end
  redis.call('XDEL', stream, oldest[1])
  redis.call('HSET', meta, 'lines_gone', n, 'bytes_gone', s)
end
return 1
"""

# A topic whose log is kept for good goes on behind its last kept line, with the places of then, where the ring is lost.
# So it does where the ring is of an earlier time: Redis was begun anew from what it had saved.
ADOPT = """
local meta, places, birth, last, seconds = KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
if tonumber(redis.call('HGET', meta, 'lines') or last) < tonumber(last) then
  for _, key in ipairs(KEYS) do redis.call('DEL', key) end
end
if redis.call('HEXISTS', meta, 'kept') == 1 then return 0 end
redis.call('HSETNX', meta, 'birth', birth)
if redis.call('HEXISTS', meta, 'lines') == 1 then
  redis.call('HSET', meta, 'kept', redis.call('HGET', meta, 'lines_gone') or '0')
else
  redis.call('HSET', meta, 'lines', last, 'lines_gone', last, 'kept', last)
  for i = 4, #ARGV, 2 do redis.call('HSET', places, ARGV[i], ARGV[i + 1]) end
end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, seconds) end
return 1
"""


@dataclass(frozen=True)
class Keys:
    """The keys of one topic; the braces put them into one slot of a Redis cluster."""

    stream: str
    meta: str
    places: str
    owed: str

    @classmethod
    def of(cls, topic: str) -> Keys:
        return cls(*(f"{name}:{{{topic}}}" for name in ("log", "log-meta", "log-places", "log-owed")))

    @property
    def ring(self) -> list[str]:
        """Those of SCRIPT."""
        return [self.stream, self.meta, self.places, self.owed]


@dataclass(frozen=True)
class Move:
    """A source's step from one position to the next; written only if it still stands at `expected` ("" for none).
    `owed` are the points of its lines, packed, that are still to be stored."""

    source: str
    expected: str
    place: str
    owed: bytes = b""

    @property
    def key(self) -> str:
        """What its points stand under; no other step has it."""
        return f"{self.source} {self.place}"


_ANYWHERE = Move("", ANY, "")


@dataclass(frozen=True)
class Kept:
    """What is kept of a log for good: its last line, and where its sources stood after it."""

    last: int = 0
    places: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str | int]:
        """Those of ADOPT after its keys."""
        return [secrets.token_hex(4), self.last, SECONDS_KEPT, *(text for pair in self.places.items() for text in pair)]


@dataclass(frozen=True)
class Reading:
    """Entries in order, and how many lines are missing before them: 0, a number, or None where nobody knows."""

    entries: Sequence[Entry]
    missing: int | None = 0


@functools.cache
def redis() -> Redis:
    return Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2, health_check_interval=30)


def script_arguments(frames: Sequence[Packed], move: Move = _ANYWHERE, least: int = 0) -> list[str | int | bytes]:
    """The arguments of SCRIPT after its keys. `least` is how many lines the ring has had, as far as known: one that
    says fewer was lost."""
    arguments: list[str | int | bytes] = [move.source, move.expected, move.place, secrets.token_hex(4)]
    arguments += [SECONDS_KEPT, LINES_KEPT, BYTES_KEPT, least, move.key if move.owed else "", move.owed]
    for frame in frames:
        arguments += [frame.kind.value, frame.count, frame.body]
    return arguments


def append(topic: str, *frames: Frame) -> None:
    """Add frames to the buffer of a topic. Raises RedisError."""
    keys, arguments = Keys.of(topic).ring, script_arguments([pack(frame) for frame in frames])
    redis().eval(SCRIPT, len(keys), *keys, *cast("list[str]", arguments))


def tail(topic: str, lines: int = TAIL_LINES) -> list[Entry]:
    """The newest entries that together hold at least `lines` lines, cut to exactly so many."""
    found: list[Entry] = []
    end, left = "+", lines
    while left > 0:
        raw = cast("list[Any]", redis().xrevrange(Keys.of(topic).stream, end, "-", READ_ENTRIES))
        for item in raw:
            entry = entry_of(item)
            if left <= 0:
                break
            found.append(entry.last(left))
            left -= entry.count
        if len(raw) < READ_ENTRIES:
            break
        end = f"({found[-1].after.entry_id}"
    return found[::-1]


def after(topic: str, cursor: Cursor) -> Reading:
    """The next entries after a cursor; `missing` counts the lines that were trimmed or passed over in between."""
    stream = Keys.of(topic).stream
    newest = [entry_of(item) for item in cast("list[Any]", redis().xrevrange(stream, "+", f"({cursor.entry_id}", 1))]
    if newest and newest[0].after.lines - cursor.lines > FOLLOWED_LINES:
        entries = tail(topic, min(TAIL_LINES, FOLLOWED_LINES))
    else:
        raw = redis().xrange(stream, f"({cursor.entry_id}", "+", READ_ENTRIES)
        entries = [entry_of(item) for item in cast("list[Any]", raw)]
    if not entries:
        birth = redis().hget(Keys.of(topic).meta, "birth")
        return Reading([], 0 if birth == cursor.birth.encode() else None)
    if entries[0].after.birth != cursor.birth:
        return Reading(entries, None)
    return Reading(entries, max(0, entries[0].lines_before - cursor.lines))


def forget(topic: str) -> None:
    """Drop everything of a topic."""
    redis().delete(*Keys.of(topic).ring)


def entry_of(item: tuple[bytes, Mapping[bytes, bytes]]) -> Entry:
    """An entry as Redis returns it."""
    entry_id, fields = item
    first, _, second = entry_id.decode().partition("-")
    cursor = Cursor(fields[b"g"].decode(), (int(first), int(second)), int(fields[b"n"]))
    source, place = fields.get(b"o", b"").decode(), fields.get(b"p", b"").decode()
    kind, size = Kind(fields[b"k"].decode()), int(fields[b"s"])
    return Entry(cursor, kind, int(fields[b"c"]), fields[b"b"], source, place, size)
