"""Telling open pages that something changed; what it is they ask for themselves, with their own rights.

One stream in Redis carries every hint to every web process, which knows its pages. What was said while a process could
not read it is still there when it comes back.
"""

from __future__ import annotations

import atexit
import os
import threading

import structlog
from django.conf import settings
from django.db import transaction
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from apps.streams.domain.topics import parse_topic

log = structlog.get_logger(__name__)

STREAM = "told"
TOPICS, PEOPLE = "topics", "people"
"""Fields of an entry: names of topics that changed, and of people who lost a right, one a line."""
ENTRIES_KEPT = 10_000
WAITING_LIMIT = 1000
EXIT_SECONDS = 1.0


def hint(topic: str) -> None:
    """Tell the pages that follow `topic`, after commit. A lost hint costs freshness only."""
    if parse_topic(topic) is None:
        raise ValueError(f"Not a topic: {topic!r}.")
    transaction.on_commit(lambda: _sender.post(TOPICS, topic), robust=True)


def revoked(user_pk: str) -> None:
    """Tell the open pages of a person to ask at once what they may still follow."""
    transaction.on_commit(lambda: _sender.post(PEOPLE, user_pk), robust=True)


class _Sender:
    """Sends from a thread of its own, so that no request waits for Redis: what comes while an entry is on its way goes
    into the next, each name once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, str], None] = {}
        self._is_sending = False
        self._thread: threading.Thread | None = None

    def post(self, field: str, name: str) -> None:
        with self._changed:
            if len(self._waiting) >= WAITING_LIMIT:
                log.warning("hint_lost", name=name, error="too many are waiting")
                return
            self._waiting[field, name] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Give hints that are on their way a moment before the process ends."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_sending, EXIT_SECONDS)

    def _run(self) -> None:
        redis = Redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 1)
        )
        while True:
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                batch, self._waiting, self._is_sending = self._waiting, {}, True
            told = {field: "\n".join(n for f, n in batch if f == field) for field in {field for field, _ in batch}}
            try:
                redis.xadd(STREAM, told, maxlen=ENTRIES_KEPT, approximate=True)  # type: ignore[arg-type]
            except RedisError as error:
                log.warning("hint_lost", names=len(batch), error=str(error))


_sender = _Sender()
atexit.register(lambda: _sender.flush())


def _begin_anew() -> None:
    """A forked worker has none of its parent's threads."""
    global _sender
    _sender = _Sender()


os.register_at_fork(after_in_child=_begin_anew)
