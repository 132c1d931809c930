"""The one socket of a page: hints for what it shows, log lines and points for what it follows.

The page says `{"op": "subscribe", "topic", "cursor": text|null, "log": bool}` and `{"op": "unsubscribe", "topic"}`.
It is told `{"t": "hint", "topic"}`, `{"t": "log"|"points", "topic", "cursor", "frames": […]}`, `{"t": "gap", "topic",
"n"}`: n lines are missing (null: nobody knows), and points may be, and every 30 s `{"t": "beat"}`: a page that hears
nothing knows that it is cut off. It is closed with 4400 (not understood), 4401 (sign in), 4403 (may not follow that, or
no longer) and 1013 (reads too slowly).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from redis.exceptions import RedisError

from apps.accounts.services import session_actor
from apps.accounts.types import Actor
from apps.streams.domain.frames import Cursor, Entry
from apps.streams.domain.topics import group_of, group_of_user, parse_topic
from apps.streams.services import buffer, may_follow
from apps.streams.services.hub import Item, Viewer, hub

log = structlog.get_logger(__name__)

RECHECK_SECONDS = 30.0
SEND_SECONDS = 5.0
TOPICS_LIMIT = 32
MESSAGE_LIMIT = 4096
BATCH_BYTES = 256 << 10

BAD, SIGN_IN, FORBIDDEN, TOO_SLOW = 4400, 4401, 4403, 1013


@dataclass
class _Follow:
    """A topic this page follows; `cursor` is how far its log has been sent, None before the first frame."""

    log: bool
    cursor: Cursor | None = None
    joined: bool = field(default=False)


class PageConsumer(AsyncWebsocketConsumer):
    """One page. Only the pump task sends frames, so their order is the buffer's."""

    async def connect(self) -> None:
        self._gone = False
        self._follows: dict[str, _Follow] = {}
        self._joins: list[str] = []
        self._viewer, self._hub = Viewer(), hub()
        self._tasks: list[asyncio.Task[None]] = []
        self._session_key = self.scope.get("cookies", {}).get(settings.SESSION_COOKIE_NAME, "")
        await self.accept()
        actor = await self._actor()
        if actor is None:
            await self.close(SIGN_IN)
            return
        self._group = group_of_user(actor.user_pk)
        await self.channel_layer.group_add(self._group, self.channel_name)
        self._tasks = [asyncio.create_task(self._pump()), asyncio.create_task(self._recheck())]

    async def disconnect(self, code: int) -> None:
        self._gone = True
        for task in self._tasks:
            task.cancel()
        for topic in self._follows:
            self._hub.leave(self._viewer, topic)
            await self.channel_layer.group_discard(group_of(topic), self.channel_name)
        if self._tasks:
            await self.channel_layer.group_discard(self._group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        request = _request(text_data)
        if request is None or not self._tasks:
            await self.close(BAD)
        elif request["op"] == "unsubscribe":
            await self._unsubscribe(request["topic"])
        else:
            await self._subscribe(request)

    async def topic_changed(self, event: dict[str, str]) -> None:
        await self._say({"t": "hint", "topic": event["topic"]})

    async def rights_changed(self, event: dict[str, str]) -> None:
        await self._judge()

    async def _subscribe(self, request: dict[str, Any]) -> None:
        topic = request["topic"]
        actor = await self._actor()
        if actor is None:
            await self.close(SIGN_IN)
            return
        if len(self._follows) >= TOPICS_LIMIT or not await database_sync_to_async(may_follow)(actor, topic):
            await self.close(FORBIDDEN)
            return
        await self._unsubscribe(topic)
        follow = self._follows[topic] = _Follow(
            bool(request.get("log")), Cursor.parse(str(request.get("cursor") or ""))
        )
        await self.channel_layer.group_add(group_of(topic), self.channel_name)
        if follow.log:
            await self._hub.join(self._viewer, topic)
            self._joins.append(topic)
            self._viewer.ready.set()

    async def _unsubscribe(self, topic: str) -> None:
        if self._follows.pop(topic, None):
            self._hub.leave(self._viewer, topic)
            await self.channel_layer.group_discard(group_of(topic), self.channel_name)

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            await self._judge()
            await self._say({"t": "beat"})

    async def _judge(self) -> None:
        """Ask again who this is and what they may follow."""
        actor = await self._actor()
        if actor is None:
            await self.close(SIGN_IN)
        elif not await database_sync_to_async(_may_follow_all)(actor, list(self._follows)):
            await self.close(FORBIDDEN)

    async def _actor(self) -> Actor | None:
        return await database_sync_to_async(session_actor)(self._session_key) if self._session_key else None

    # --- frames -----------------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        while not self._gone:
            await self._viewer.ready.wait()
            items, lost = self._viewer.take()
            joins, self._joins = self._joins, []
            for topic in {*joins, *lost}:
                await self._catch_up(topic)
            await self._forward(items)

    async def _catch_up(self, topic: str) -> None:
        """Send what the buffer holds after the page's cursor, or its last lines, until there is no more."""
        follow = self._follows.get(topic)
        if follow is None:
            return
        try:
            if follow.cursor is None:
                await self._pass_on(follow, _items(topic, await asyncio.to_thread(buffer.tail, topic)))
            while follow.cursor is not None and not self._gone:
                reading = await asyncio.to_thread(buffer.after, topic, follow.cursor)
                if reading.missing != 0:
                    await self._say({"t": "gap", "topic": topic, "n": reading.missing})
                    follow.cursor = None
                if not reading.entries:
                    break
                await self._pass_on(follow, _items(topic, reading.entries))
            follow.joined = True
        except RedisError as error:
            follow.joined = False
            log.warning("buffer_unread", topic=topic, error=str(error))
            await asyncio.sleep(1)
            self._joins.append(topic)
            self._viewer.ready.set()

    async def _forward(self, items: list[Item]) -> None:
        """Send live frames, those of one topic together."""
        by_topic: dict[str, list[Item]] = {}
        for item in items:
            by_topic.setdefault(item.topic, []).append(item)
        for topic, part in by_topic.items():
            follow = self._follows.get(topic)
            if follow and follow.joined:
                await self._pass_on(follow, part)

    async def _pass_on(self, follow: _Follow, items: list[Item]) -> None:
        """Send what is newer than the page's cursor; say how many lines are missing, where some are."""
        batch: list[Item] = []
        for item in items:
            known, entry = follow.cursor, item.entry
            missing: int | None = 0
            if known is not None:
                same = known.birth == entry.after.birth
                if same and entry.after.entry <= known.entry:
                    continue
                missing = entry.lines_before - known.lines if same else None
            if missing != 0:
                await self._flush(batch)
                await self._say({"t": "gap", "topic": item.topic, "n": missing})
            if batch and (batch[0].entry.kind != entry.kind or sum(len(i.text) for i in batch) > BATCH_BYTES):
                await self._flush(batch)
            batch.append(item)
            follow.cursor = entry.after
        await self._flush(batch)

    async def _flush(self, batch: list[Item]) -> None:
        if batch:
            last = batch[-1]
            head = json.dumps({"t": last.entry.kind.value, "topic": last.topic, "cursor": str(last.entry.after)})
            frames = ",".join(item.text for item in batch)
            await self._send(f'{head[:-1]}, "frames": [{frames}]}}')
            batch.clear()

    async def _say(self, message: dict[str, Any]) -> None:
        await self._send(json.dumps(message))

    async def _send(self, text: str) -> None:
        """Send, or give the page up when it does not take the message in time."""
        if self._gone:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=text)
        except TimeoutError:
            self._gone = True
            # The close waits behind what the page has not taken; a page that never takes it fails the server's ping.
            self._tasks.append(asyncio.create_task(self.close(TOO_SLOW)))


def _items(topic: str, entries: Sequence[Entry]) -> list[Item]:
    return [Item.of(topic, entry) for entry in entries]


def _may_follow_all(actor: Actor, topics: list[str]) -> bool:
    return all(may_follow(actor, topic) for topic in topics)


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
