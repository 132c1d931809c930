"""Sending wake-ups: the first at once, and many changes of one object within the next moment are one message more."""

from __future__ import annotations

import asyncio
import time

from apps.adapters.broker import ASKED, SEEN, send
from apps.clusters.services.registry import Id

GATHER_SECONDS = 0.03
REPEAT_SECONDS = 5.0
"""A row that stays due is not woken more often than this: while no worker runs, messages must not pile up."""

Wake = tuple[str, Id]
Waiting = dict[Wake, int]
"""Priority of each wake-up on its way."""


class Wakes:
    """Wake-ups on their way to the broker."""

    def __init__(self) -> None:
        self._waiting: Waiting = {}
        self._any = asyncio.Event()
        self._due_sent: dict[Wake, float] = {}

    def add(self, task: str, row_id: Id, *, asked: bool = False) -> None:
        """Wake `task` with this id, soon; `asked` before all that is only seen."""
        known = self._waiting.get((task, row_id), SEEN)
        self._waiting[task, row_id] = ASKED if asked else known
        self._any.set()

    def add_due(self, task: str, row_ids: list[Id], *, asked: bool = False) -> None:
        """Wake rows that are due, unless they were just woken for the same reason."""
        now = time.monotonic()
        self._due_sent = {wake: at for wake, at in self._due_sent.items() if now - at < REPEAT_SECONDS}
        for row_id in row_ids:
            if (task, row_id) not in self._due_sent:
                self._due_sent[task, row_id] = now
                self.add(task, row_id, asked=asked)

    async def run(self) -> None:
        while True:
            await self._any.wait()
            batch, self._waiting = self._waiting, {}
            self._any.clear()
            await asyncio.to_thread(_send_all, batch)
            await asyncio.sleep(GATHER_SECONDS)


def _send_all(batch: Waiting) -> None:
    for (task, row_id), priority in batch.items():
        send(task, row_id, priority=priority)
