"""All open pages of a web process: what they hear, whether they may still, and one clock for them.

Nothing here is made for each page: one reader of the stream of hints, one look at the rights of everybody whose turn it
is, one timer for the word that each page waits for and for pages that take nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.streams.domain.messages import BEAT, hint_message
from apps.streams.services.hints import PEOPLE, STREAM, TOPICS
from apps.streams.services.hub import BLOCK_MS, RETRY_SECONDS, pairs
from apps.streams.services.judging import Answer, Judge, Verdict

log = structlog.get_logger(__name__)

RECHECK_SECONDS = 30.0
SEND_SECONDS = 5.0
TICK_SECONDS = 1.0
LET_IN_AT_ONCE = 16
PAGES_AT_ONCE = 50
"""So many are told something before others get their turn."""


class Page(Protocol):
    """An open page, to the lobby."""

    stuck_since: float
    """When it began to be sent what it has not taken yet (`time.monotonic`), if it is among the busy."""

    @property
    def topics(self) -> Iterable[str]: ...

    def say(self, text: str) -> None:
        """Send this now or soon. Returns at once and raises nothing."""

    def end(self, verdict: Verdict) -> None:
        """It may no longer be open."""

    def give_up(self) -> None:
        """It takes nothing."""


@dataclass(eq=False, slots=True)
class Visit:
    """A browser session with pages open here. `news` counts what was heard of its rights."""

    key: str
    due: float
    user_pk: str = ""
    news: int = 0
    pages: set[Page] = field(default_factory=set)


class Lobby:
    def __init__(self) -> None:
        self._redis: Redis = Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=5)
        self._judge = Judge()
        self._visits: dict[str, Visit] = {}
        self._followers: dict[str, set[Page]] = {}
        self.busy: set[Page] = set()
        """Pages that have not taken what they are sent."""
        self._tasks: list[asyncio.Task[None]] = []
        self._looks: set[asyncio.Task[None]] = set()
        self._hearing = asyncio.Event()
        self.door = asyncio.Semaphore(LET_IN_AT_ONCE)
        """When all pages come back together, who asks for something else is not to wait for all of them."""

    # --- pages come and go ------------------------------------------------------------------------------------------

    def enter(self, page: Page, session_key: str) -> Visit:
        """Count a page in."""
        visit = self._visits.get(session_key)
        if visit is None:
            visit = self._visits[session_key] = Visit(session_key, time.monotonic() + RECHECK_SECONDS)
        visit.pages.add(page)
        if not self._tasks or any(task.done() for task in self._tasks):
            self._tasks = [asyncio.create_task(self._hear()), asyncio.create_task(self._watch())]
        return visit

    async def ready(self) -> None:
        """From here on pages hear of every change, unless Redis is away."""
        if not self._hearing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hearing.wait(), RETRY_SECONDS)

    def leave(self, page: Page, visit: Visit) -> None:
        for topic in page.topics:
            self.unfollow(page, topic)
        self.busy.discard(page)
        visit.pages.discard(page)
        if not visit.pages and self._visits.get(visit.key) is visit:
            del self._visits[visit.key]

    def follow(self, page: Page, topic: str) -> None:
        self._followers.setdefault(topic, set()).add(page)

    def unfollow(self, page: Page, topic: str) -> None:
        pages = self._followers.get(topic)
        if pages:
            pages.discard(page)
            if not pages:
                del self._followers[topic]

    # --- rights -----------------------------------------------------------------------------------------------------

    async def may(self, visit: Visit, topic: str = "") -> Verdict:
        """Whether the session is good and its person may follow the topic, by a look that begins now or later.
        Raises DatabaseError."""
        while True:
            known = visit.news
            answer = await self._judge.ask((visit.key, topic))
            visit.user_pk = answer.user_pk or visit.user_pk
            if visit.news == known:
                return answer.verdict  # else something was said of its rights meanwhile

    def _look_at(self, visits: list[Visit]) -> None:
        """Ask again who these are and what they may follow; whoever says so need not wait for it."""
        for visit in visits:
            visit.news += 1
        if visits:
            look = asyncio.create_task(self._judge_all(visits))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _judge_all(self, visits: list[Visit]) -> None:
        for answer in await asyncio.gather(*(self._judge_one(visit) for visit in visits), return_exceptions=True):
            if isinstance(answer, DatabaseError):
                log.warning("rights_unknown", error=str(answer)[:200])
            elif answer is not None:
                raise answer

    async def _judge_one(self, visit: Visit) -> None:
        topics = ["", *{topic for page in visit.pages for topic in page.topics}]
        answers: list[Answer] = await asyncio.gather(*(self._judge.ask((visit.key, topic)) for topic in topics))
        verdicts = {topic: answer.verdict for topic, answer in zip(topics, answers, strict=True)}
        refused = {topic for topic, verdict in verdicts.items() if verdict is not Verdict.MAY}
        for page in tuple(visit.pages) if refused else ():
            if "" in refused:
                page.end(Verdict.NOBODY)
            elif not refused.isdisjoint(page.topics):
                page.end(Verdict.MAY_NOT)

    # --- one clock --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(TICK_SECONDS, SEND_SECONDS, RECHECK_SECONDS))
            now = time.monotonic()
            for page in tuple(self.busy):
                if now - page.stuck_since > SEND_SECONDS:
                    page.give_up()
            due = [visit for visit in self._visits.values() if visit.due <= now]
            for visit in due:
                visit.due = now + RECHECK_SECONDS
                await _tell(visit.pages, BEAT)
            self._look_at(due)

    # --- what is said to pages --------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        place = ""
        while True:
            try:
                async with self._redis.client() as connection:
                    if not place:
                        newest = cast("list[Any]", await connection.xrevrange(STREAM, "+", "-", 1))
                        place = newest[0][0].decode() if newest else "0-0"
                    if not self._hearing.is_set():
                        self._hearing.set()
                        await self._something_was_missed()
                    while True:
                        for _stream, raw in pairs(await connection.xread({STREAM: place}, block=BLOCK_MS)):
                            place = raw[-1][0].decode()
                            await self._pass_on([said for _id, said in raw])
            except (RedisError, OSError) as error:
                self._hearing.clear()
                log.warning("hints_unread", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _pass_on(self, entries: list[dict[bytes, bytes]]) -> None:
        people = {name for said in entries for name in said.get(PEOPLE.encode(), b"").decode().split("\n")} - {""}
        if people:
            self._look_at([v for v in self._visits.values() if not v.user_pk or v.user_pk in people])
        topics = {name for said in entries for name in said.get(TOPICS.encode(), b"").decode().split("\n")}
        for topic in topics & self._followers.keys():
            await _tell(self._followers[topic], hint_message(topic))

    async def _something_was_missed(self) -> None:
        """While Redis was away, hints were lost and rights may have been taken."""
        self._look_at(list(self._visits.values()))
        for topic in tuple(self._followers):
            await _tell(self._followers.get(topic, ()), hint_message(topic))


async def _tell(pages: Iterable[Page], text: str) -> None:
    for number, page in enumerate(tuple(pages), 1):
        page.say(text)
        if number % PAGES_AT_ONCE == 0:
            await asyncio.sleep(0)


_lobbies: dict[int, tuple[asyncio.AbstractEventLoop, Lobby]] = {}


def lobby() -> Lobby:
    """The lobby of the running event loop (a web process has one)."""
    loop = asyncio.get_running_loop()
    known = _lobbies.get(id(loop))
    if known is None or known[0] is not loop:
        known = _lobbies[id(loop)] = (loop, Lobby())
    return known[1]
