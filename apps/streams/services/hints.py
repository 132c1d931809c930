"""Telling open pages that something changed; what it is they ask for themselves, with their own rights."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all

import structlog
from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

from apps.streams.domain.topics import group_of, group_of_user

log = structlog.get_logger(__name__)

WAITING_LIMIT = 1000
SEND_SECONDS = 5.0
EXIT_SECONDS = 1.0

Message = dict[str, str]


def hint(topic: str) -> None:
    """Tell the pages that follow `topic`, after commit. A lost hint costs freshness only."""
    group, message = group_of(topic), {"type": "topic.changed", "topic": topic}
    transaction.on_commit(lambda: _sender.post(group, message), robust=True)


def revoked(user_pk: str) -> None:
    """Tell the open pages of a person to ask at once what they may still follow."""
    group = group_of_user(user_pk)
    transaction.on_commit(lambda: _sender.post(group, {"type": "rights.changed"}), robust=True)


class _Sender:
    """Sends from an event loop of its own, so that no request waits for Redis, and one connection serves all hints
    (`async_to_sync` would open one for each)."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._waiting: set[Future[None]] = set()

    def post(self, group: str, message: Message) -> None:
        if len(self._waiting) >= WAITING_LIMIT:
            log.warning("hint_lost", group=group, error="too many are waiting")
            return
        future = asyncio.run_coroutine_threadsafe(_send(group, message), self._running_loop())
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)

    def flush(self) -> None:
        """Give hints that are on their way a moment before the process ends."""
        wait_for_all(list(self._waiting), EXIT_SECONDS)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="hints", daemon=True).start()
            return self._loop


async def _send(group: str, message: Message) -> None:
    layer = get_channel_layer()
    assert layer is not None
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await layer.group_send(group, message)
    except (RedisError, OSError, ChannelFull) as error:
        log.warning("hint_lost", group=group, error=str(error))


_sender = _Sender()
atexit.register(lambda: _sender.flush())


def _begin_anew() -> None:
    """A forked worker has none of its parent's threads."""
    global _sender
    _sender = _Sender()


os.register_at_fork(after_in_child=_begin_anew)
