"""Writing buffers from an event loop: the log followers' side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from django.conf import settings
from redis.asyncio import Redis

from apps.streams.domain.frames import Frame, pack
from apps.streams.services.buffer import SCRIPT, Keys, Move, script_arguments


class LiveBuffer:
    """One connection pool for all followers of one event loop. Raises RedisError."""

    def __init__(self) -> None:
        self._redis: Redis = Redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2, health_check_interval=30
        )
        self._script = self._redis.register_script(SCRIPT)

    async def close(self) -> None:
        await self._redis.aclose()

    async def place(self, topic: str, source: str) -> str:
        """Where a source stands, "" where nothing is known of it."""
        found = await cast("Any", self._redis.hget(Keys.of(topic).places, source))
        _stop_if_cancelled()
        return bytes(found).decode() if found else ""

    async def append(self, topic: str, frames: Sequence[Frame], move: Move) -> bool:
        """Write frames and the source's new position together. False, and nothing written, if the source stands
        elsewhere than `move.expected`: somebody else follows it."""
        keys = Keys.of(topic)
        arguments = script_arguments([pack(frame) for frame in frames], move)
        written = await self._script(keys=[keys.stream, keys.meta, keys.places], args=cast("Any", arguments))
        _stop_if_cancelled()
        return bool(written)


def _stop_if_cancelled() -> None:
    """redis-py writes under asyncio.wait_for, which before Python 3.12 may swallow a cancellation (cpython#86296)."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
