"""Who is behind the sessions of open pages and what they may follow, asked for all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from django.db import close_old_connections

from apps.accounts import services as accounts
from apps.accounts.types import Actor
from apps.streams.services.topics import may_follow

THREADS = 4
QUESTIONS_AT_ONCE = 500

_threads = ThreadPoolExecutor(THREADS, "judge")
"""Of their own: the provider's slowness must not keep logs from being read."""

Question = tuple[str, str]
"""The key of a session, and a topic; "" asks only who it is."""


class Verdict(Enum):
    MAY = "may"
    MAY_NOT = "may not"
    NOBODY = "nobody"
    """The session is over."""


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: Verdict
    user_pk: str = ""


NOBODY = Answer(Verdict.NOBODY)


class Judge:
    """Answers from a look at the database that begins after the question came. Questions that come while it looks wait
    for the next look, which is one for all of them."""

    def __init__(self) -> None:
        self._waiting: dict[Question, asyncio.Future[Answer]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._singly: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> Answer:
        """Raises DatabaseError."""
        future = self._waiting.get(question)
        if future is None:
            future = self._waiting[question] = asyncio.get_running_loop().create_future()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(future)

    async def _look(self) -> None:
        try:
            while self._waiting:
                some = list(self._waiting)[:QUESTIONS_AT_ONCE]
                asked = {question: self._waiting.pop(question) for question in some}
                await self._answer(asked)
        finally:
            self._looking = None

    async def _answer(self, asked: dict[Question, asyncio.Future[Answer]]) -> None:
        loop = asyncio.get_running_loop()
        looking = loop.run_in_executor(_threads, _answers, list(asked))
        _settle(asked, *(await asyncio.gather(looking, return_exceptions=True)))
        # The provider takes its time: nobody else waits for it.
        due: dict[str, dict[Question, asyncio.Future[Answer]]] = {}
        for question, future in asked.items():
            if not future.done():
                due.setdefault(question[0], {})[question] = future
        for key, questions in due.items():
            task = asyncio.create_task(self._answer_singly(key, questions))
            self._singly.add(task)
            task.add_done_callback(self._singly.discard)

    async def _answer_singly(self, key: str, asked: dict[Question, asyncio.Future[Answer]]) -> None:
        looking = asyncio.get_running_loop().run_in_executor(_threads, _answers_singly, key, list(asked))
        _settle(asked, *(await asyncio.gather(looking, return_exceptions=True)))


def _settle(asked: dict[Question, asyncio.Future[Answer]], found: dict[Question, Answer] | BaseException) -> None:
    """Give answers, or the failure, to those who wait; a question without an answer goes on waiting."""
    for question, future in asked.items():
        if isinstance(found, BaseException):
            future.set_exception(found)
            future.exception()  # whoever asked may be gone
        elif question in found:
            future.set_result(found[question])


def _answers(questions: list[Question]) -> dict[Question, Answer]:
    """In a thread. Without those of sessions that the provider must be asked about."""
    close_old_connections()
    try:
        actors, due = accounts.session_actors({key for key, _topic in questions})
        return {(key, topic): _answer_for(actors.get(key), topic) for key, topic in questions if key not in due}
    finally:
        close_old_connections()


def _answers_singly(key: str, questions: Iterable[Question]) -> dict[Question, Answer]:
    """In a thread."""
    close_old_connections()
    try:
        actor = accounts.session_actor(key)
        return {question: _answer_for(actor, question[1]) for question in questions}
    finally:
        close_old_connections()


def _answer_for(actor: Actor | None, topic: str) -> Answer:
    if actor is None:
        return NOBODY
    verdict = Verdict.MAY if not topic or may_follow(actor, topic) else Verdict.MAY_NOT
    return Answer(verdict, actor.user_pk)
