"""One reader of Redis for the logs of all open pages of a web process.

The hub reads each followed topic once and keeps its newest frames, made ready once, for every page. A page has no
queue but its place: one that takes frames too slowly costs the hub nothing, and what it missed it reads here, or from
the buffer where it is farther behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, cast

import structlog
from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.streams.domain.frames import Cursor
from apps.streams.domain.messages import Item, Made, messages
from apps.streams.services.buffer import READ_ENTRIES, Keys, entry_of, tail

log = structlog.get_logger(__name__)

RECENT_FRAMES = 64
RECENT_BYTES = 4 << 20
BLOCK_MS = 500
RETRY_SECONDS = 1.0
TAIL_SECONDS = 1.0
"""The last lines of a topic that were read for one page are those of others that come within this time."""

Place = tuple[int, int]
"""The id of an entry in Redis."""
Tail = tuple[Place, Made]
"""The last lines of a topic, and up to which place they go at least."""
NOTHING: Place = (0, 0)


class Viewer(Protocol):
    """A page, to the hub."""

    def news(self, topic: str) -> None:
        """There is more of this topic: take it now or later. Returns at once and raises nothing."""


class Recent:
    """The newest frames of one topic: all that came after `floor`. `tail` are its last lines, where they were read just
    now."""

    def __init__(self, floor: Place, birth: str = "") -> None:
        self.floor = self.last = floor
        self.birth = birth
        self.tail: asyncio.Task[Tail] | None = None
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._made: dict[Cursor | None, Made] = {}

    def add(self, items: list[Item]) -> None:
        items = [item for item in items if item.entry.after.entry > self.last]  # a read may be older than the join
        if not items:
            return
        self._made.clear()
        self._items.extend(items)
        self._bytes += sum(item.size for item in items)
        self.last, self.birth = items[-1].entry.after.entry, items[-1].entry.after.birth
        while len(self._items) > RECENT_FRAMES or self._bytes > RECENT_BYTES:
            gone = self._items.popleft()
            self._bytes -= gone.size
            self.floor = gone.entry.after.entry
            self.tail = None  # it may be of a place before

    def after(self, topic: str, since: Place, cursor: Cursor | None) -> Made | None:
        """What a page at this cursor that has everything up to `since` is sent, and its cursor then. None where that is
        no longer all here. Pages at the same place share it."""
        if max(since, cursor.entry if cursor else since) < self.floor:
            return None
        if cursor is None:
            return messages(topic, None, (item for item in self._items if item.entry.after.entry > since))
        made = self._made.get(cursor)
        if made is None:
            made = self._made[cursor] = messages(topic, cursor, self._newer(cursor.entry))
        return made

    def reaches(self, cursor: Cursor) -> bool:
        """Whether all that came after this place is here."""
        return cursor.birth == self.birth and self.floor <= cursor.entry <= self.last

    def _newer(self, place: Place) -> list[Item]:
        newer: list[Item] = []
        for item in reversed(self._items):
            if item.entry.after.entry <= place:
                break
            newer.append(item)
        return newer[::-1]


class Hub:
    """Reads while anybody follows any log; ends by itself when the last page is gone."""

    def __init__(self) -> None:
        self._redis: Redis = Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=5)
        self._viewers: dict[str, set[Viewer]] = {}
        self._recent: dict[str, Recent] = {}
        self._beginning: dict[str, asyncio.Task[Recent]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._client_id: int | None = None
        self._reading: frozenset[str] = frozenset()

    async def join(self, viewer: Viewer, topic: str) -> None:
        """From now on the viewer hears of every new frame of the topic; older ones it reads from the buffer itself, and
        then those `after`."""
        if topic not in self._recent:
            begun = await asyncio.shield(self._begin(topic))
            self._recent.setdefault(topic, begun)
        is_first = topic not in self._viewers
        self._viewers.setdefault(topic, set()).add(viewer)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        elif is_first and topic not in self._reading:
            await self._interrupt(topic)
        viewer.news(topic)

    def _begin(self, topic: str) -> asyncio.Task[Recent]:
        """Where a topic stands: asked once for all pages that come together."""
        task = self._beginning.get(topic)
        if task is None:
            task = self._beginning[topic] = asyncio.create_task(self._newest(topic))
            task.add_done_callback(functools.partial(self._has_begun, topic))
        return task

    async def _newest(self, topic: str) -> Recent:
        newest = cast("list[Any]", await self._redis.xrevrange(Keys.of(topic).stream, "+", "-", 1))
        after = entry_of(newest[0]).after if newest else None
        return Recent(after.entry, after.birth) if after else Recent(NOTHING)

    def _has_begun(self, topic: str, task: asyncio.Task[Recent]) -> None:
        del self._beginning[topic]
        _heard(task)

    def leave(self, viewer: Viewer, topic: str) -> None:
        viewers = self._viewers.get(topic, set())
        viewers.discard(viewer)
        if not viewers:
            self._viewers.pop(topic, None)
            self._recent.pop(topic, None)

    def last(self, topic: str) -> Place | None:
        """Up to where a topic was read; None while nobody follows it."""
        recent = self._recent.get(topic)
        return recent.last if recent else None

    def after(self, topic: str, since: Place, cursor: Cursor | None) -> Made | None:
        """`Recent.after`, of a topic that somebody follows."""
        recent = self._recent.get(topic)
        return recent.after(topic, since, cursor) if recent else None

    def reaches(self, topic: str, cursor: Cursor) -> bool:
        """Whether all that came after this place is here."""
        recent = self._recent.get(topic)
        return recent is not None and recent.reaches(cursor)

    async def tail(self, topic: str) -> Tail:
        """The last lines of a topic that somebody follows: read once for all pages that come together. Raises
        RedisError."""
        recent = self._recent[topic]
        if recent.tail is None:
            recent.tail = task = asyncio.create_task(_read_tail(topic, recent.last))
            task.add_done_callback(_heard)
            asyncio.get_running_loop().call_later(TAIL_SECONDS, _drop_tail, recent, task)
        try:
            return await asyncio.shield(recent.tail)
        except RedisError:
            recent.tail = None
            raise

    async def _interrupt(self, topic: str) -> None:
        """Make a blocked read return, so that the new topic is among those of the next one."""
        for _ in range(20):
            if topic in self._reading or self._client_id is None:
                return
            with contextlib.suppress(RedisError):
                await self._redis.client_unblock(self._client_id)
            await asyncio.sleep(0.005)

    async def _read(self) -> None:
        while self._viewers:
            try:
                async with self._redis.client() as connection:
                    self._client_id = await connection.client_id()
                    while self._viewers:
                        await self._read_once(connection)
            except (RedisError, OSError) as error:
                # The places are kept: nothing is lost that Redis still has when it is back.
                log.warning("hub_without_redis", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                self._client_id, self._reading = None, frozenset()
        self._reader = None  # in the same breath as the last look at _viewers, so that no join is missed

    async def _read_once(self, connection: Redis) -> None:
        topics = {Keys.of(topic).stream: topic for topic in self._viewers}
        self._reading = frozenset(topics.values())
        wanted = {stream: "{}-{}".format(*self._recent[topic].last) for stream, topic in topics.items()}
        found = await connection.xread(cast("Any", wanted), count=READ_ENTRIES, block=BLOCK_MS)
        for stream, raw in pairs(found):
            topic = topics[stream.decode()]
            recent = self._recent.get(topic)
            if recent is None:
                continue
            recent.add([Item.of(entry_of(part)) for part in raw])
            for viewer in tuple(self._viewers.get(topic, ())):
                viewer.news(topic)


async def _read_tail(topic: str, last: Place) -> Tail:
    entries = await asyncio.to_thread(tail, topic)
    return last, messages(topic, None, [Item.of(entry) for entry in entries])


def _drop_tail(recent: Recent, task: asyncio.Task[Tail]) -> None:
    if recent.tail is task:
        recent.tail = None


def _heard(task: asyncio.Task[Any]) -> None:
    """Its failure was told to those who waited for it; there may be none left."""
    if not task.cancelled():
        task.exception()


def pairs(found: Any) -> Iterator[tuple[bytes, list[Any]]]:
    """What XREAD returned, in protocol 2 (a list of pairs) or 3 (a dict of lists of lists)."""
    if isinstance(found, dict):
        yield from ((stream, chunk) for stream, chunks in found.items() for chunk in chunks)
    else:
        yield from ((stream, raw) for stream, raw in found or [])


_hubs: dict[int, tuple[asyncio.AbstractEventLoop, Hub]] = {}


def hub() -> Hub:
    """The hub of the running event loop (a web process has one)."""
    loop = asyncio.get_running_loop()
    known = _hubs.get(id(loop))
    if known is None or known[0] is not loop:
        known = _hubs[id(loop)] = (loop, Hub())
    return known[1]
