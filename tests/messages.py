"""The messages that a test sends to workers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings
from redis import Redis

from maasportal.celery import app


@dataclass
class Messages:
    """Those that wait in a queue of a test's own."""

    queue: str
    redis: Redis

    def parts(self) -> list[bytes]:
        return list(self.redis.scan_iter(f"{self.queue}*"))

    def __call__(self) -> int:
        """How many there are."""
        return sum(self.redis.llen(key) for key in self.parts())

    def taken(self) -> list[str]:
        """What each of them is for, in the order in which a worker takes them up."""
        found = []
        with app.connection_for_read() as connection:
            while message := connection.default_channel.basic_get(self.queue, no_ack=True):
                found.append(str(message.payload[0][0]))
        return found


@contextmanager
def own_queue() -> Iterator[Messages]:
    """Whatever the block sends goes there."""
    before, messages = (
        app.conf.task_default_queue,
        Messages(f"q{uuid.uuid4()}", Redis.from_url(settings.CELERY_BROKER_URL)),
    )
    app.conf.task_default_queue = messages.queue
    app.amqp.__dict__.pop("queues", None)
    try:
        yield messages
    finally:
        app.conf.task_default_queue = before
        app.amqp.__dict__.pop("queues", None)
        for key in messages.parts():
            messages.redis.delete(key)
