"""The cache, without which everything still works."""

from __future__ import annotations

from typing import Any

import redis
import structlog
from django.core.cache.backends.redis import RedisCache

log = structlog.get_logger(__name__)

AWAY = (redis.ConnectionError, redis.TimeoutError)


class ForgetfulRedisCache(RedisCache):
    """A server that is away has forgotten everything: what is asked is not there, what is told is lost.

    Sessions are kept in the database and only cached here, so that people notice nothing.
    """

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except AWAY as error:
            log.warning("cache_away", error=str(error))
            return default

    def has_key(self, key: Any, version: int | None = None) -> bool:
        try:
            return bool(super().has_key(key, version))
        except AWAY:
            return False

    def set(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().set(*args, **kwargs)
        except AWAY as error:
            log.warning("cache_away", error=str(error))

    def delete(self, key: Any, version: int | None = None) -> bool:
        try:
            return bool(super().delete(key, version))
        except AWAY:
            return False
