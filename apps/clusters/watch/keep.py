"""Keeping logs for good: what followers wrote to the rings goes to the archive before it is trimmed."""

from __future__ import annotations

import asyncio

import structlog
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from apps.adapters.errors import OutsideError
from apps.clusters.watch.database import Writer, in_thread, tidied
from apps.streams import services as streams
from apps.streams.services import archive

log = structlog.get_logger(__name__)

LOOK_SECONDS, LOOK_EVERYWHERE_SECONDS = 1.0, 300.0
PAUSE_SECONDS = 10.0
AT_ONCE = 2
"""Segments that are made at a time; each takes a few times its own size in memory."""


def known(topic: str) -> streams.Kept:
    """What is kept of a topic, asked from a thread of any kind."""
    return tidied(lambda: archive.kept(topic))


async def keep_logs(buffer: streams.LiveBuffer, write: Writer) -> None:
    """Make segments of what has gathered, until cancelled. Raises LeaseLost."""
    looked, room = float("-inf"), asyncio.Semaphore(AT_ONCE)
    topics: set[str] = set()
    paused: dict[str, float] = {}
    clock = asyncio.get_running_loop().time
    while True:
        topics |= buffer.grown
        buffer.grown.clear()
        if clock() - looked > LOOK_EVERYWHERE_SECONDS:
            try:
                await _pay_all(write)
                topics |= await asyncio.to_thread(archive.waiting_topics)
                looked = clock()
            except RedisError as error:
                log.warning("rings_unread", error=str(error)[:200])
        paused = {topic: until for topic, until in paused.items() if until > clock()}
        tried = list(topics - paused.keys())
        results = await asyncio.gather(*(_keep(topic, buffer, write, room) for topic in tried))
        for topic, waits in zip(tried, results, strict=True):
            if waits is None:
                paused[topic] = clock() + PAUSE_SECONDS
            elif not waits:
                topics.discard(topic)
        await asyncio.sleep(LOOK_SECONDS)


async def _pay_all(write: Writer) -> None:
    """Store what lines said that a watch read which was killed before it had stored it. Raises LeaseLost."""
    for topic in await asyncio.to_thread(streams.owed.topics):
        try:
            await _pay(topic, write)
        except DatabaseError as error:
            log.warning("points_wait", topic=topic, error=str(error)[:200])


async def _pay(topic: str, write: Writer) -> None:
    owed = await asyncio.to_thread(streams.owed.of, topic)
    if owed is not None:
        await write(streams.owed.store, owed)
        await asyncio.to_thread(streams.owed.settle, owed)


async def _keep(topic: str, buffer: streams.LiveBuffer, write: Writer, room: asyncio.Semaphore) -> bool | None:
    """Make the segments of a topic that are due; whether lines still wait, None where they could not be kept."""
    async with room:
        try:
            while (found := await in_thread(archive.gather, topic)) is not None:
                await _pay(topic, write)  # behind the last line that is kept nobody reads them again
                row = await write(archive.reserve, found)
                await in_thread(archive.store, found)
                await write(archive.settle, row)
                buffer.kept(topic, found.summary.last)
                await asyncio.to_thread(archive.tell_ring, found)
            return await asyncio.to_thread(archive.waits, topic)
        except (RedisError, DatabaseError, OutsideError) as error:
            log.warning("log_not_kept", topic=topic, error=str(error)[:200])
            return None
