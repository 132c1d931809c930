"""The one socket of a page: hints for what it shows, log lines and points for what it follows.

The page says `{"op": "subscribe", "topic", "cursor": text|null, "log": bool}` and `{"op": "unsubscribe", "topic"}`.
It is told `{"t": "hint", "topic"}`, `{"t": "log"|"points", "topic", "cursor", "frames": […]}`, `{"t": "gap", "topic",
"n"}`: n lines are missing (null: nobody knows), and points may be, and every 30 s `{"t": "beat"}`: a page that hears
nothing knows that it is cut off. It is closed with 4400 (not understood), 4401 (sign in), 4403 (may not follow that, or
no longer) and 1013 (reads too slowly, or come back later).
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from apps.streams.domain.frames import Cursor, Entry
from apps.streams.domain.messages import Item, Made, gap_message, messages
from apps.streams.domain.topics import parse_topic
from apps.streams.domain.wire import Message, Wire
from apps.streams.services import buffer
from apps.streams.services.eager import begin
from apps.streams.services.hub import Place, hub
from apps.streams.services.judging import Verdict
from apps.streams.services.lobby import Visit, lobby

log = structlog.get_logger(__name__)

TOPICS_LIMIT = 32
MESSAGE_LIMIT = 4096
RETRY_SECONDS = 1.0
DOOR_SECONDS = 0.25
"""A page whose person the provider must be asked about does not keep others at the door for longer."""

BAD, SIGN_IN, FORBIDDEN, LATER = 4400, 4401, 4403, 1013
CODES = {Verdict.NOBODY: SIGN_IN, Verdict.MAY_NOT: FORBIDDEN}

GONE = (OSError, RuntimeError)
"""What a server raises for a message to a page that went away: the second where it has itself given the page up and not
yet said so, as uvicorn does with one that answers no ping."""

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


@dataclass(slots=True)
class _Follow:
    """A log that this page follows: how far it has been sent (None before the first frame), and up to which place it
    has read all from the buffer (None before it has)."""

    cursor: Cursor | None
    since: Place | None = None


class Page:
    """One page. It costs what it must remember and the coroutine that waits for its requests. What it is told is sent
    by whoever says it, and by a task only where the server does not take that at once."""

    __slots__ = (
        "_behind",
        "_follows",
        "_gone",
        "_hub",
        "_lobby",
        "_send",
        "_sending",
        "_texts",
        "_visit",
        "_wire",
        "stuck_since",
    )

    def __init__(self, send: Send, wire: Wire | None = None) -> None:
        self._send, self._wire, self._lobby, self._hub = send, wire, lobby(), hub()
        self._follows: dict[str, _Follow | None] = {}
        self._texts: dict[str, None] = {}
        self._behind: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._gone = False
        self._visit: Visit
        self.stuck_since = math.inf

    @property
    def topics(self) -> Collection[str]:
        return self._follows.keys()

    async def run(self, session_key: str, receive: Receive) -> None:
        """From the handshake to the end."""
        await receive()
        allowed: asyncio.Task[bool] | None = None
        try:
            async with self._lobby.door:
                await self._send({"type": "websocket.accept"})
                if not session_key:
                    await self._close(SIGN_IN)
                    return
                self._visit = self._lobby.enter(self, session_key)
                allowed = asyncio.create_task(self._let_in())
                await asyncio.wait([allowed], timeout=DOOR_SECONDS)
            if await allowed:
                while (message := await receive())["type"] == "websocket.receive":
                    await self._take(message.get("text"))
        finally:
            self._gone = True
            if allowed:
                allowed.cancel()
                self._leave()

    def _leave(self) -> None:
        for topic, follow in self._follows.items():
            if follow:
                self._hub.leave(self, topic)
        self._lobby.leave(self, self._visit)
        if self._sending:
            self._sending.cancel()

    async def _let_in(self) -> bool:
        await self._lobby.ready()
        return await self._may()

    async def _may(self, topic: str = "") -> bool:
        """Whether the page may go on, or follow this; else it is closed."""
        try:
            verdict = await self._lobby.may(self._visit, topic)
        except DatabaseError as error:
            log.warning("rights_unknown", error=str(error)[:200])
            await self._close(LATER)
            return False
        if verdict is not Verdict.MAY:
            await self._close(CODES[verdict])
        return verdict is Verdict.MAY

    async def _take(self, text: str | None) -> None:
        request = _request(text)
        if request is None:
            await self._close(BAD)
        elif request["op"] == "unsubscribe":
            self._unsubscribe(request["topic"])
        else:
            await self._subscribe(request)

    async def _subscribe(self, request: dict[str, Any]) -> None:
        topic = request["topic"]
        if len(self._follows) >= TOPICS_LIMIT:
            await self._close(FORBIDDEN)
            return
        if not await self._may(topic) or self._gone:
            return
        self._unsubscribe(topic)
        self._lobby.follow(self, topic)
        follow = _Follow(Cursor.parse(str(request.get("cursor") or ""))) if request.get("log") else None
        self._follows[topic] = follow
        if follow:
            await self._join(topic, follow)

    async def _join(self, topic: str, follow: _Follow) -> None:
        try:
            await self._hub.join(self, topic)
        except RedisError as error:
            log.warning("buffer_unread", topic=topic, error=str(error))
            await self._close(LATER)

    def _unsubscribe(self, topic: str) -> None:
        if topic in self._follows:
            if self._follows.pop(topic):
                self._hub.leave(self, topic)
            self._lobby.unfollow(self, topic)

    async def _close(self, code: int) -> None:
        self._gone = True
        try:
            await self._send({"type": "websocket.close", "code": code})
        except GONE:
            return

    # --- what the lobby and the hub say -----------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self._texts[text] = None
        self._go_on()

    def news(self, topic: str) -> None:
        self._behind[topic] = None
        self._go_on()

    def end(self, verdict: Verdict) -> None:
        self._end(CODES[verdict])

    def give_up(self) -> None:
        self._end(LATER)

    def _end(self, code: int) -> None:
        """Close, behind what the page has not taken; a page that never takes it fails the server's ping."""
        if not self._gone:
            self._gone = True
            if self._sending:
                self._sending.cancel()
            self._lobby.busy.discard(self)
            self._sending = begin(self._close(code))

    # --- sending: one coroutine at a time, so that the order of frames is the buffer's ------------------------------

    def _go_on(self) -> None:
        if self._sending is None and not self._gone:
            self._sending = begin(self._deliver())
            if self._sending:
                self._lobby.busy.add(self)

    async def _deliver(self) -> None:
        """Send all that waits."""
        try:
            while not self._gone and (self._texts or self._behind):
                await self._say_waiting()
                behind, self._behind = self._behind, {}
                for topic in behind:
                    follow = self._follows.get(topic)
                    if follow:
                        await self._bring(topic, follow)
        except GONE:
            self._gone = True
        if self._sending and self._sending is asyncio.current_task():
            self._sending = None
            self._lobby.busy.discard(self)

    async def _tell(self, text: str) -> None:
        self.stuck_since = time.monotonic()
        await self._send({"type": "websocket.send", "text": text})
        self.stuck_since = math.inf

    async def _pass(self, message: Message) -> None:
        wire = self._wire
        if wire is None:
            await self._tell(message.text)
        elif not wire.put(message.frame):
            self.stuck_since = time.monotonic()
            while not wire.put(message.frame):
                await wire.ready()
            self.stuck_since = math.inf

    async def _bring(self, topic: str, follow: _Follow) -> None:
        """Send what there is of a log after the page's place, from the hub, or the buffer where that has it no more."""
        while not self._gone and self._follows.get(topic) is follow:
            made = None if follow.since is None else self._hub.after(topic, follow.since, follow.cursor)
            if made is not None:
                await self._pass_on(follow, made)
                return
            last = self._hub.last(topic)
            if last is None:
                return  # the page is still on its way to the hub, and hears when it is there
            if follow.cursor is not None and self._hub.reaches(topic, follow.cursor):
                follow.since = follow.cursor.entry
            else:
                follow.since = await self._catch_up(topic, follow, last)

    async def _catch_up(self, topic: str, follow: _Follow, last: Place) -> Place | None:
        """Send what the buffer holds after the page's cursor until there is no more, or the topic's last lines. The
        place up to which that is all, None if the buffer cannot be read."""
        try:
            if follow.cursor is None:
                last, made = await self._hub.tail(topic)
                await self._pass_on(follow, made)
                return last
            while follow.cursor is not None and not self._gone:
                reading = await asyncio.to_thread(buffer.after, topic, follow.cursor)
                if reading.missing != 0:
                    await self._tell(gap_message(topic, reading.missing))
                    follow.cursor = None
                if not reading.entries:
                    break
                await self._pass_on(follow, messages(topic, follow.cursor, _items(reading.entries)))
        except RedisError as error:
            log.warning("buffer_unread", topic=topic, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
            return None
        return last

    async def _pass_on(self, follow: _Follow, made: Made) -> None:
        found, cursor = made
        for message in found:
            await self._say_waiting()
            await self._pass(message)
        follow.cursor = cursor

    async def _say_waiting(self) -> None:
        """Short words do not wait for the end of a log."""
        while self._texts:
            texts, self._texts = self._texts, {}
            for text in texts:
                await self._tell(text)


def _items(entries: Collection[Entry]) -> list[Item]:
    return [Item.of(entry) for entry in entries]


def _request(text: str | None) -> dict[str, Any] | None:
    """A request as the page may send it, or None."""
    if not text or len(text) > MESSAGE_LIMIT:
        return None
    try:
        request = json.loads(text)
    except ValueError:
        return None
    if not isinstance(request, dict) or request.get("op") not in ("subscribe", "unsubscribe"):
        return None
    return request if parse_topic(str(request.get("topic", ""))) else None
