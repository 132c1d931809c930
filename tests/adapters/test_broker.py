"""Messages that wake background work."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from apps.adapters import broker
from maasportal.celery import app
from tests.messages import own_queue

TASK = "jobs.reconcile_job"


@pytest.fixture
def waiting() -> Iterator[Callable[[], int]]:
    with own_queue() as count:
        yield count


def test_a_row_that_changes_often_waits_once(waiting: Callable[[], int]) -> None:
    """Workers that fall behind would else find thousands of messages before that of a new row."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    for _change in range(5):
        broker.send(TASK, first)
    broker.send(TASK, second)
    assert waiting() == 2


def test_a_change_after_the_work_began_is_another_message(db: None, waiting: Callable[[], int]) -> None:
    row = str(uuid.uuid4())
    broker.send(TASK, row)
    app.loader.import_default_modules()
    app.tasks[TASK].apply(args=[row])  # runs here, with the signals of a worker
    broker.send(TASK, row)
    assert waiting() == 2


def test_what_a_killed_worker_had_fetched_is_sent_again(waiting: Callable[[], int]) -> None:
    row = str(uuid.uuid4())
    broker.send(TASK, row)
    broker.forget_waiting()
    broker.send(TASK, row)
    assert waiting() == 2
