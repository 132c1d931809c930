"""The messages that a test sends to workers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from redis import Redis

from maasportal.celery import app


@contextmanager
def own_queue() -> Iterator[Callable[[], int]]:
    """How many messages wait in a queue of the block's own."""
    redis, before, name = Redis.from_url(settings.CELERY_BROKER_URL), app.conf.task_default_queue, f"q{uuid.uuid4()}"
    app.conf.task_default_queue = name
    app.amqp.__dict__.pop("queues", None)
    try:
        yield lambda: redis.llen(name)
    finally:
        app.conf.task_default_queue = before
        app.amqp.__dict__.pop("queues", None)
        redis.delete(name)
