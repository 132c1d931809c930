"""The ORM from an event loop: in threads, with no connection left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

from apps.clusters.services import lease

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a function that uses the database. Its connection goes back to the pool afterwards."""
    return await asyncio.to_thread(tidied, partial(function, *args, **kwargs))


async def in_own_thread(executor: Executor, function: Callable[..., R], *args: object) -> R:
    """The same in a thread of its own, for what must not wait its turn."""
    return await asyncio.get_running_loop().run_in_executor(executor, tidied, partial(function, *args))


def tidied(function: Callable[[], R]) -> R:
    """Run a function that uses the database, in a thread of its own."""
    close_old_connections()
    try:
        return function()
    finally:
        close_old_connections()


@dataclass(frozen=True)
class Writer:
    """Writes for the holder of a lease, in one transaction each; raises LeaseLost once it has changed hands.

    A process that was stopped and goes on beside its successor writes nothing, however late it notices.
    """

    name: str = ""
    epoch: int = 0
    """Without a name nothing is asked: there is no other watch."""

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        def run() -> R:
            with lease.fence(self.name, self.epoch) if self.name else nullcontext():
                return function(*args, **kwargs)

        return await in_thread(run)
