"""One reader of Redis for all open pages of a web process.

The hub reads each followed topic once and hands every frame, as text made once, to the queue of each page. A page that
takes them too slowly, or gets too many at once, costs the hub no time: its queue drops the oldest frames, and the page
reads them from the buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

import structlog
from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.streams.domain.frames import Entry, Kind, shortened_body
from apps.streams.services.buffer import READ_ENTRIES, Keys, entry_of

log = structlog.get_logger(__name__)

QUEUE_FRAMES = 64
BLOCK_MS = 500
RETRY_SECONDS = 1.0
NOTHING = "0-0"


@dataclass(frozen=True)
class Item:
    """A frame on its way to the pages; `text` is its JSON, in which `n` is the number of a log frame's first line."""

    topic: str
    entry: Entry
    text: str

    @classmethod
    def of(cls, topic: str, entry: Entry) -> Item:
        if entry.kind is not Kind.LOG:
            return cls(topic, entry, entry.body.decode())
        text = shortened_body(entry.body).decode()
        return cls(topic, entry, f'{{"n":{entry.lines_before + 1},{text[1:]}')


class Viewer:
    """The queue of one page. Bounded: the oldest frame makes room for the newest."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self._queue: deque[Item] = deque()
        self._lost: set[str] = set()

    def offer(self, item: Item) -> None:
        if len(self._queue) >= QUEUE_FRAMES:
            self._lost.add(self._queue.popleft().topic)
        self._queue.append(item)
        self.ready.set()

    def take(self) -> tuple[list[Item], set[str]]:
        """Everything that waits, and the topics of which something was dropped."""
        items, lost = list(self._queue), self._lost
        self._queue.clear()
        self._lost = set()
        self.ready.clear()
        return items, lost


class Hub:
    """Reads while anybody follows anything; ends by itself when the last page is gone."""

    def __init__(self) -> None:
        self._redis: Redis = Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=5)
        self._viewers: dict[str, set[Viewer]] = {}
        self._last: dict[str, str] = {}
        self._reader: asyncio.Task[None] | None = None
        self._client_id: int | None = None
        self._reading: frozenset[str] = frozenset()

    async def join(self, viewer: Viewer, topic: str) -> None:
        """From now on the viewer gets every new frame of the topic; older ones it reads from the buffer itself."""
        if topic not in self._viewers:
            newest = cast("list[Any]", await self._redis.xrevrange(Keys.of(topic).stream, "+", "-", 1))
            self._last.setdefault(topic, newest[0][0].decode() if newest else NOTHING)
        self._viewers.setdefault(topic, set()).add(viewer)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        elif topic not in self._reading:
            await self._interrupt(topic)

    def leave(self, viewer: Viewer, topic: str) -> None:
        viewers = self._viewers.get(topic, set())
        viewers.discard(viewer)
        if not viewers:
            self._viewers.pop(topic, None)
            self._last.pop(topic, None)

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
        wanted = {stream: self._last[topic] for stream, topic in topics.items()}
        found = await connection.xread(cast("Any", wanted), count=READ_ENTRIES, block=BLOCK_MS)
        for stream, raw in _pairs(found):
            topic = topics[stream.decode()]
            if topic not in self._last:
                continue
            for part in raw:
                item = Item.of(topic, entry_of(part))
                for viewer in self._viewers.get(topic, ()):
                    viewer.offer(item)
            self._last[topic] = raw[-1][0].decode()


def _pairs(found: Any) -> list[tuple[bytes, list[Any]]]:
    """What XREAD returned, in protocol 2 (a list of pairs) or 3 (a dict of lists of lists)."""
    if isinstance(found, dict):
        return [(stream, chunk) for stream, chunks in found.items() for chunk in chunks]
    return [(stream, raw) for stream, raw in found or []]


_hubs: dict[int, tuple[asyncio.AbstractEventLoop, Hub]] = {}


def hub() -> Hub:
    """The hub of the running event loop (a web process has one)."""
    loop = asyncio.get_running_loop()
    known = _hubs.get(id(loop))
    if known is None or known[0] is not loop:
        known = _hubs[id(loop)] = (loop, Hub())
    return known[1]
