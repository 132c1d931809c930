"""Beginning a coroutine at once: most have nothing to wait for, and a task for each would cost more than they do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def begin(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run up to where it first waits. The task that does the rest, None if there is none.

    As the first part runs in the caller's own task, the coroutine must not use the current one there (as
    `asyncio.timeout` does).
    """
    try:
        waited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_Begun(coroutine, waited))


class _Begun(Coroutine[Any, Any, None]):
    """A coroutine whose first step was taken, and what it waits for since."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], waited: Any) -> None:
        self._coroutine, self._waited = coroutine, waited

    def send(self, value: Any) -> Any:
        waited, self._waited = self._waited, None
        return self._coroutine.send(value) if waited is None else waited

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        raise NotImplementedError("A task runs this.")
