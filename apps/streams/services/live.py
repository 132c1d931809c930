"""Writing buffers from an event loop: the log followers' side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from django.conf import settings
from django.db import Error as DatabaseError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.streams.domain.frames import Packed
from apps.streams.services.buffer import ADOPT, SCRIPT, Kept, Keys, Move, script_arguments


class LiveBuffer:
    """One connection pool for all followers of one event loop. Raises RedisError.

    `kept` tells (in a thread) what is kept of a log for good: the ring goes on behind that where it is lost, or older.
    """

    def __init__(self, kept: Callable[[str], Kept] | None = None) -> None:
        self._kept = kept
        self._least: dict[str, int] = {}
        self.grown: set[str] = set()
        """Topics that were written to; whoever keeps their lines for good takes them out."""
        self._redis: Redis = Redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2, health_check_interval=30
        )
        self._script = self._redis.register_script(SCRIPT)
        self._adopt = self._redis.register_script(ADOPT)

    async def close(self) -> None:
        await self._redis.aclose()

    async def place(self, topic: str, source: str) -> str:
        """Where a source stands, "" where nothing is known of it."""
        keys = Keys.of(topic)
        adopted, lines = await cast("Any", self._redis.hmget(keys.meta, "kept", "lines"))
        try:
            kept = await asyncio.to_thread(self._kept, topic) if self._kept else Kept()
        except DatabaseError as error:
            if adopted is None:
                raise RedisError("What is kept of the log cannot be asked: its ring cannot go on.") from error
            kept = Kept()
        self.kept(topic, kept.last)
        if adopted is None or int(lines or 0) < kept.last:
            await self._adopt(keys=[keys.stream, keys.meta, keys.places], args=cast("Any", kept.arguments()))
        found = await cast("Any", self._redis.hget(keys.places, source))
        _stop_if_cancelled()
        return bytes(found).decode() if found else ""

    def kept(self, topic: str, last: int) -> None:
        """Lines up to this one are kept for good: a ring that has had fewer is of an earlier time."""
        self._least[topic] = max(last, self._least.get(topic, 0))

    async def append(self, topic: str, frames: Sequence[Packed], move: Move) -> bool:
        """Write frames and the source's new position together. False, and nothing written, if the source stands
        elsewhere than `move.expected` (somebody else follows it), or the ring was lost: ask for its place again."""
        arguments = script_arguments(frames, move, self._least.get(topic, 0))
        written = await self._script(keys=Keys.of(topic).ring, args=cast("Any", arguments))
        _stop_if_cancelled()
        if written and frames:
            self.grown.add(topic)
        return bool(written)

    async def stored(self, topic: str, frames: Sequence[Packed], moves: Sequence[str]) -> None:
        """Tell pages of points that were stored. What stood under the keys of these moves is owed no more."""
        async with self._redis.pipeline(transaction=False) as pipe:
            await self._script(keys=Keys.of(topic).ring, args=cast("Any", script_arguments(frames)), client=pipe)
            pipe.hdel(Keys.of(topic).owed, *moves)
            await pipe.execute()
        _stop_if_cancelled()


def _stop_if_cancelled() -> None:
    """redis-py writes under asyncio.wait_for, which before Python 3.12 may swallow a cancellation (cpython#86296)."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
