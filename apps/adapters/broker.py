"""Waking background work, by name, once the transaction has committed."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import structlog
from celery import Task, current_app
from celery.signals import task_prerun, worker_ready
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

log = structlog.get_logger(__name__)

AGAIN_SECONDS = 600
"""A message that nobody took up for so long may be sent once more: it may be lost. Workers that fall behind by more
than this find each row in the queue again and again."""
MARK = "waits"
ASKED, SEEN = 0, 3
"""Priorities, the lower taken up first: what somebody waits for, and what a cluster has told of rows that are on their
way. A cluster that is back tells of all its objects at once, and thousands of such looks must not come before work
that was accepted while it was away."""
ANSWER_SECONDS = 2.0


def wake(task: str, *args: int | str) -> None:
    """Send `task(*args)` after commit. A lost message costs seconds, never work: the row says it is due."""
    transaction.on_commit(lambda: send(task, *args), robust=True)


def send(task: str, *args: int | str, priority: int = ASKED) -> None:
    """Send now, unless the same message waits already: whoever takes that up sees what happened meanwhile, and workers
    that fall behind find one message for a row, not one for each change. A broker that is away is logged and
    forgotten; the sweep finds the row."""
    try:
        if priority != ASKED and _marks().exists(_mark(task, args, ASKED)):
            return
        if _marks().set(_mark(task, args, priority), 1, nx=True, ex=AGAIN_SECONDS):
            current_app.send_task(task, args=args, ignore_result=True, retry=False, priority=priority)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("wake_lost", task=task, error=str(error))


def take_up(task: Task, args: Sequence[int | str], **_: object) -> None:
    """In a worker, before a message's work begins: what happens from now on is another message."""
    try:
        _marks().delete(*(_mark(task.name, args, priority) for priority in (ASKED, SEEN)))
    except RedisError as error:
        log.warning("mark_stays", task=task.name, error=str(error))


def forget_waiting(**_: object) -> None:
    """As a worker starts: what one before it had fetched and not begun is nowhere, so all may be sent again."""
    try:
        for mark in _marks().scan_iter(f"{MARK}:*", count=1000):
            _marks().delete(mark)
    except RedisError as error:
        log.warning("marks_stay", error=str(error))


task_prerun.connect(take_up)
worker_ready.connect(forget_waiting)


def _mark(task: str, args: Sequence[int | str], priority: int) -> str:
    return ":".join((MARK, str(priority), task, *map(str, args)))


@functools.cache
def _marks() -> Redis:
    return Redis.from_url(
        settings.CELERY_BROKER_URL, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
    )
