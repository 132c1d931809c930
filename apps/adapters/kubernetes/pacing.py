"""How fast one API server is asked, and when it is left alone. Shared by all threads that speak to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apps.adapters.errors import Unavailable
from apps.adapters.kubernetes.answers import Answer

RATE, BURST = 200.0, 400
"""Calls a second in the long run, and at once after a rest. A server that wants fewer says 429."""
LONGEST_WAIT = 2.0
"""A call that would have to wait longer for its turn comes back later instead of holding its thread."""
FAILURES = 3
OPEN_SECONDS = 2.0
"""After so many calls in a row without an answer the server is asked once in so long, by one thread at a time."""

Clock = Callable[[], float]


class Bucket:
    """Tokens that come back at `rate` a second, up to `burst`; and a pause where the server asked for one."""

    def __init__(self, rate: float = RATE, burst: int = BURST, clock: Clock = time.monotonic) -> None:
        self._every, self._burst, self._clock = 1 / rate, burst, clock
        self._next = 0.0
        """When the token after the last one given would be there, were there no burst."""
        self._paused_until = 0.0
        self._lock = threading.Lock()

    def reserve(self) -> float:
        """Take a token; seconds until it is there."""
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now - self._burst * self._every) + self._every
            return max(0.0, self._next - now, self._paused_until - now)

    def give_back(self) -> None:
        with self._lock:
            self._next -= self._every

    def heed(self, answer: Answer) -> None:
        """Pause where the server is too busy and says for how long."""
        if answer.code in (429, 503) and answer.retry_after and "DisruptionBudget" not in answer.causes:
            with self._lock:
                self._paused_until = max(self._paused_until, self._clock() + answer.retry_after)


class Pace:
    """Lets calls through, or refuses them at once: a server that is away must not hold a thread for each of them."""

    def __init__(self, bucket: Bucket | None = None, clock: Clock = time.monotonic) -> None:
        self.bucket, self._clock = bucket or Bucket(clock=clock), clock
        self._failures = 0
        self._closed_until = 0.0
        self._tried = False
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One call; any exception of the block counts as no answer. Raises Unavailable instead of a call."""
        self._enter()
        try:
            wait = self.bucket.reserve()
            if wait > LONGEST_WAIT:
                self.bucket.give_back()
                raise Unavailable("The API server is asked too often; this call waits.", code=429, retry_after=wait)
            time.sleep(wait)
        except BaseException:
            self._leave(None)
            raise
        try:
            yield
        except BaseException:
            self._leave(answered=False)
            raise
        self._leave(answered=True)

    def _enter(self) -> None:
        with self._lock:
            if self._failures < FAILURES:
                return
            left = self._closed_until - self._clock()
            if left > 0 or self._tried:
                text = "The API server has not answered for a while; it is asked again in a moment."
                raise Unavailable(text, retry_after=max(left, OPEN_SECONDS / 2))
            self._tried = True

    def _leave(self, answered: bool | None) -> None:
        with self._lock:
            self._tried = False
            if answered:
                self._failures = 0
            elif answered is not None:
                self._failures += 1
                self._closed_until = self._clock() + OPEN_SECONDS
