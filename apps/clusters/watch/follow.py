"""Following the log of one container: every line once, whatever breaks in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime

import structlog
from redis.exceptions import RedisError

from apps.adapters.errors import NotFound, OutsideError, Unavailable
from apps.adapters.kubernetes.answers import NodeGone
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters.domain import blocks
from apps.clusters.domain.loglines import Splitter, stamped
from apps.clusters.domain.resume import Place, Resumer, Taken
from apps.clusters.services.registry import WorkloadKind
from apps.clusters.watch.database import Writer
from apps.clusters.watch.gathering import FRAME_BYTES, Gatherer
from apps.clusters.watch.recording import Recorder
from apps.streams import services as streams

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
LOOK_SECONDS = 5.0
"""A followed log that is silent this long is looked at: whether the container that it comes from still runs."""
LONGEST_UNREAD = 0.01
"""Seconds for which what has come may be left unread: a connection that breaks takes it along."""
NEVER = 2**63 - 1


class Elsewhere(Exception):
    """Somebody else has moved this log's place: start again from there."""


class Replaced(Exception):
    """The pod was made anew under its name, and what is read now is the new one's log."""


class Restarted(Exception):
    """The container runs anew already, though the cluster has not said so yet."""


@dataclass(frozen=True)
class Target:
    """A container whose log is wanted. `path` is its pod's; `told` is called when figures of it were kept."""

    path: str
    container: str
    pod_uid: str
    topic: str
    kind: WorkloadKind
    source: streams.Source
    told: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        """What its place is kept under."""
        return f"{self.pod_uid}/{self.container}"


@dataclass(frozen=True)
class Run:
    """What the cluster says of a container: which run it is in, and whether that has ended."""

    restarts: int
    has_ended: bool


class Follower:
    """Follows one container until its last run has ended and been read, or its pod is gone."""

    def __init__(
        self, target: Target, reader: StreamReader, buffer: streams.LiveBuffer, run: Run, write: Writer | None = None
    ) -> None:
        self._target, self._reader, self._buffer = target, reader, buffer
        self._run = run
        self._recorder = Recorder(target.topic, target.source, buffer, write or Writer(), target.told)
        self._is_gone = False
        self._news = asyncio.Event()
        self._stored = ""
        self._gathered = Gatherer(target.source, target.kind)
        self._until: int | None = None
        self._asks_previous = False
        self._found = False
        """Whether the last answer went as far as the place that was known: else it was cut, or the log is empty or
        rotated."""

    def update(self, run: Run) -> None:
        """The cluster says something new of the container."""
        if run != self._run:
            self._run = run
            self._news.set()

    def gone(self) -> None:
        """The pod was deleted: take what still comes, but do not try again."""
        self._is_gone = True
        self._news.set()

    async def run(self) -> None:
        """Raises LeaseLost, in a group."""
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(self._recorder.run())
            await self._follow()
            await self._recorder.done()
            recording.cancel()

    async def _follow(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._news.clear()  # before it is looked at: what comes from here on cuts the pause short
            self._gathered.begin_anew()
            moved = self._stored
            try:
                if await self._step():
                    return
            except (NotFound, Replaced):
                return  # the pod is gone, and its log with it
            except Elsewhere:
                log.info("log_followed_elsewhere", source=self._target.name)
            except (OutsideError, RedisError) as error:
                log.debug("log_broke", source=self._target.name, error=str(error)[:200])
                if self._is_gone and isinstance(error, OutsideError):
                    return
            if self._stored != moved:
                pause = FIRST_PAUSE
            await self._pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _step(self) -> bool:
        """Read one run of the container as far as it goes now; True when there will be no more."""
        self._stored = await self._buffer.place(self._target.topic, self._target.name)
        run = self._run
        place = Place.load(self._stored) or Place(restarts=run.restarts)
        if place.restarts < run.restarts:
            await self._finish_earlier(place, run.restarts)
            return False
        is_over = run.has_ended and run.restarts == place.restarts
        try:
            if not place.done and is_over:
                # Only a request made after the end is known shows all of it; one that follows may have been cut short.
                await self._flush((await self._read_rest(place)).ended())
            elif not place.done:
                await self._read(place, follow=True)
        except Restarted:
            await self._finish_earlier(place, place.restarts + 1)
            return False
        return is_over and run == self._run

    async def _finish_earlier(self, place: Place, restarts: int) -> None:
        """Read what is left of the run before this one, and go on to this one. Older runs are lost, and said to be."""
        lost = place.restarts + 1 < restarts
        if not place.done and not lost:
            try:
                place = await self._read_rest(place, previous=True)
            except (Unavailable, NodeGone):
                raise
            except OutsideError:
                lost = True
        if lost:
            self._gathered.gap(place.latest, time.time_ns())
        await self._flush(place.next(restarts))
        self._gathered.new_run()

    async def _read_rest(self, place: Place, *, previous: bool = False) -> Place:
        """Read a run that has ended until its end is found behind what is known: when a node goes away in the middle of
        a log, the API server ends its answer as well as at the log's own end."""
        quiet = 0
        while quiet < (1 if self._found else 3):
            known, place = place, await self._read(place, follow=False, previous=previous)
            quiet = quiet + 1 if place == known else 0
        return place

    async def _read(self, place: Place, *, follow: bool, previous: bool = False) -> Place:
        """Take lines from one request until it ends; raises when it was cut. Returns the place after the last line."""
        resumer, splitter, self._until, self._asks_previous = Resumer(place), Splitter(), None, previous
        chunks = self._reader.log(
            self._target.path, self._target.container,
            follow=follow, previous=previous, since_time=place.since_time, timestamps=True,
        )  # fmt: skip
        try:
            async with aclosing(chunks), aclosing(self._timed(chunks, resumer, self._run if follow else None)) as timed:
                async for chunk in timed:
                    await self._take_chunk(chunk, splitter, resumer)
        except Unavailable:
            # Whole lines that came before the cut are good. (After any other failure they are read again.)
            await self._flush(resumer.place)
            raise
        self._found = resumer.found and resumer.place.at > 0
        if not follow and (resumer.found or place.fresh) and resumer.place == place:
            await self._take(splitter.rest(), resumer)  # a line without its end is one only if no more of it comes
        await self._flush(resumer.place)
        return resumer.place

    async def _timed(
        self, chunks: AsyncGenerator[bytes], resumer: Resumer, followed: Run | None
    ) -> AsyncGenerator[bytes]:
        """The chunks; while none comes, frames leave on time, and a followed run is not waited for once it is over.
        (A stream whose node has died may stay open for ever.)"""
        size = 0
        while True:
            if size < FRAME_BYTES and self._gathered.pause:  # lines that come meanwhile are read together
                await asyncio.sleep(min(self._gathered.pause, LONGEST_UNREAD))
            coming = asyncio.ensure_future(anext(chunks, None))
            try:
                while True:
                    wait = self._gathered.wait
                    if (await asyncio.wait({coming}, timeout=LOOK_SECONDS if wait is None else wait))[0]:
                        break
                    if wait is None and followed and (self._is_gone or self._run != followed):
                        raise Unavailable("The log's stream did not end with its container.")
                    await self._flush(resumer.place)
                chunk = await coming
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)
            if chunk is None:
                return
            size = len(chunk)
            yield chunk

    async def _take_chunk(self, chunk: bytes, splitter: Splitter, resumer: Resumer) -> None:
        whole = splitter.whole(chunk)
        if whole is None:
            await self._take(splitter.feed(chunk), resumer)
        else:
            for part in blocks.parts(whole, FRAME_BYTES):
                await self._take_many(part, resumer)
        if self._gathered.wait == 0.0:
            await self._flush(resumer.place)

    async def _take_many(self, part: bytes, resumer: Resumer) -> None:
        """Take whole lines at once where they are plain enough, and else one by one."""
        at = 0
        while at < len(part) and not (resumer.found and self._until is not None and self._gathered.takes_many):
            end = part.index(b"\n", at)
            await self._take([(part[at:end], 0)], resumer)
            at = end + 1
        part = part[at:]
        block = blocks.stamped(part) if part else None
        if block is None or self._until is None or block.latest >= self._until:
            await self._take([(line, 0) for line in part.split(b"\n")[:-1]], resumer)
            return
        resumer.take_all(block)
        self._gathered.add_many(block)
        if self._gathered.is_full:
            await self._flush(resumer.place)

    async def _take(self, raw: Sequence[tuple[bytes, int]], resumer: Resumer) -> None:
        """Take lines, each with the number of bytes left out of it."""
        for line in stamped(raw):
            before = resumer.place
            taken = resumer.take(line)
            if taken is not None:
                if self._until is None:
                    try:
                        is_gap = await self._is_gap(before, taken)
                        self._until = await self._bound(proven=before.at > 0 and not is_gap)
                    except (OutsideError, Restarted):
                        resumer.place = before  # this line is still to be taken
                        raise
                    if is_gap and line.at < self._until:
                        self._gathered.gap(before.latest, line.at)
                if line.at >= self._until:
                    await self._flush(before.ended())
                    raise Replaced
                self._gathered.add(line)
                if self._gathered.is_full:
                    await self._flush(resumer.place)

    async def _is_gap(self, place: Place, first: Taken) -> bool:
        """Whether lines may be missing between a place and the first new line of an answer. Raises Restarted."""
        if first.gap_since is None:
            return False
        if self._asks_previous:
            return True
        is_there = await self._is_in_previous(place)
        if place.fresh:  # the run before this one, unless another lies between
            return is_there is False
        if is_there:
            raise Restarted
        return True

    async def _is_in_previous(self, place: Place) -> bool | None:
        """Whether a place is in the log of the run before the newest; None where that has no lines since."""
        resumer, splitter = Resumer(place), Splitter()
        chunks = self._reader.log(
            self._target.path, self._target.container, previous=True, since_time=place.since_time, timestamps=True
        )
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    for line in stamped(splitter.feed(chunk)):
                        taken = resumer.take(line)
                        if resumer.found:
                            return taken is None
        except (Unavailable, NodeGone):
            raise
        except OutsideError:
            return False
        return None

    async def _bound(self, *, proven: bool) -> int:
        """The time (ns) from which lines of this request are another pod's. A log is asked for by name, and a gang that
        restarts gets the same names; only a log that goes on behind our own last line is `proven` to be ours."""
        if proven:
            return NEVER
        try:
            pod = await self._reader.metadata(self._target.path)
        except NotFound:
            return NEVER
        if pod.uid == self._target.pod_uid or not pod.creationTimestamp:
            return NEVER
        return int(datetime.fromisoformat(pod.creationTimestamp).timestamp()) * 1_000_000_000

    async def _flush(self, place: Place) -> None:
        """Store what has gathered and the place after it, as one."""
        batch, after = self._gathered.take(), place.dump()
        if after == self._stored and batch.gap is None:
            return
        await self._recorder.room()
        target, begun = self._target, time.monotonic()
        move = streams.Move(
            target.name, self._stored, after, streams.owed.packed(target.source.attempt, batch.readings)
        )
        try:
            written = await self._buffer.append(target.topic, batch.frames(), move)
        except RedisError:
            # The answer may be lost, not the write.
            if await self._buffer.place(target.topic, target.name) != after:
                raise
            written = True
        finally:
            # Whatever became of the lines: they say what they say, and storing it twice changes nothing.
            if batch.readings:
                self._recorder.add(move.key, batch.readings, batch.points)
        if not written:
            raise Elsewhere
        self._stored = after
        self._gathered.took(begun)
