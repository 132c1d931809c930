"""Counting events by key and minute in Valkey, for every process together."""

from __future__ import annotations

import functools

import structlog
from redis import Redis, RedisError

from apps.adapters.errors import Unavailable

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 0.25
"""A request waits for this: a server that is slower is as good as away."""

# One script, so that a counter can never stay behind without its end.
_SCRIPT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return count
"""


class Counter:
    """Counts within minutes of the clock. Raises Unavailable."""

    def __init__(self, url: str) -> None:
        # Nothing is tried twice: an event would count twice.
        self._redis = Redis.from_url(
            url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS, retry_on_timeout=False
        )
        self._script = self._redis.register_script(_SCRIPT)

    def count(self, key: str, minute: int) -> int:
        """Count one event, and say how many there were in this minute, this one included."""
        try:
            return int(self._script(keys=[f"count:{key}:{minute}"], args=[120]))
        except RedisError as error:
            raise Unavailable(f"Events cannot be counted: {error}", system="counter") from error


@functools.cache
def counter(url: str) -> Counter:
    """The one of this process."""
    return Counter(url)
