"""A work queue of keys: one worker at a time handles each, again if it was added meanwhile, later if it failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx

from apps.localcluster.client import ApiError, Key

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


class Retry(Exception):
    """What has to be done could not be done now; the key is due again after a growing pause."""


@dataclass
class WorkQueue:
    """`handle(key)` is called for every key added; ApiError, Retry and lost connections make it due again."""

    handle: Callable[[Key], Awaitable[None]]
    workers: int = 4
    _due: asyncio.Queue[Key] = field(default_factory=asyncio.Queue)
    _waiting: set[Key] = field(default_factory=set)
    _busy: set[Key] = field(default_factory=set)
    _again: set[Key] = field(default_factory=set)
    _failures: dict[Key, int] = field(default_factory=dict)

    def add(self, key: Key) -> None:
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._due.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        asyncio.get_running_loop().call_later(max(0.0, seconds), self.add, key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._due.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self.handle(key)
                self._failures.pop(key, None)
            except (ApiError, Retry, httpx.TransportError) as error:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                log.info("%s/%s: %s", *key, error)
                self.add_after(key, min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE))
            except (KeyError, TypeError, ValueError):
                # One object that nobody can make sense of must not stop the work on all others.
                log.exception("%s/%s is not understood", *key)
                self.add_after(key, LONGEST_PAUSE)
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)
