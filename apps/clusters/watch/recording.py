"""Storing the points of a log beside the way of its lines, which need not wait for the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from apps.clusters.watch.database import Writer
from apps.streams import services as streams

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
GATHER_SECONDS = 0.05
WAITING_LIMIT = 10_000
"""So many readings may wait to be stored before the lines wait for them."""


@dataclass
class _Waiting:
    """What goes into the next statement, and the moves that brought it."""

    moves: list[str] = field(default_factory=list)
    readings: list[streams.Reading] = field(default_factory=list)
    points: list[streams.LivePoint] = field(default_factory=list)


class Recorder:
    """Stores the points of one container in their order: the first at once, and what comes while they are stored and in
    the moment after together. Until then they are owed in the ring (`streams.owed`)."""

    def __init__(
        self, topic: str, source: streams.Source, buffer: streams.LiveBuffer, write: Writer, told: Callable[[], None]
    ) -> None:
        self._topic, self._source, self._buffer, self._write, self._told = topic, source, buffer, write, told
        self._waiting = _Waiting()
        self._any, self._room, self._none = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._room.set()
        self._none.set()

    def add(self, move: str, readings: Sequence[streams.Reading], points: Sequence[streams.LivePoint]) -> None:
        """Store this soon; it is owed under the key of a move."""
        waiting = self._waiting
        waiting.moves.append(move)
        waiting.readings += readings
        waiting.points += points
        self._any.set()
        self._none.clear()
        if len(waiting.readings) >= WAITING_LIMIT:
            self._room.clear()

    async def room(self) -> None:
        """Wait until more may come."""
        await self._room.wait()

    async def done(self) -> None:
        """Wait until all is stored."""
        await self._none.wait()

    async def run(self) -> None:
        """Store what comes, until cancelled. Raises LeaseLost."""
        while True:
            await self._any.wait()
            self._any.clear()
            batch, self._waiting = self._waiting, _Waiting()
            await self._store(batch.readings)
            self._told()
            await self._tell(batch)
            if len(self._waiting.readings) < WAITING_LIMIT:
                self._room.set()
            if not self._waiting.moves:
                self._none.set()
            await asyncio.sleep(GATHER_SECONDS)

    async def _store(self, readings: list[streams.Reading]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._write(streams.record_points, self._topic, self._source.attempt, readings)
            except DatabaseError as error:
                log.warning("points_wait", topic=self._topic, error=str(error)[:200])
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    async def _tell(self, batch: _Waiting) -> None:
        frame = streams.PointsFrame(self._source, batch.points)
        try:
            await self._buffer.stored(self._topic, [streams.pack(frame)] if batch.points else [], batch.moves)
        except RedisError as error:  # they are stored once more, and pages see them when they ask
            log.debug("points_untold", topic=self._topic, error=str(error)[:200])
