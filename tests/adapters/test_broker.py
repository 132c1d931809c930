"""Messages that wake background work."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from apps.adapters import broker
from maasportal.celery import app
from tests.messages import Messages, own_queue

TASK = "jobs.reconcile_job"


@pytest.fixture
def waiting() -> Iterator[Messages]:
    with own_queue() as count:
        yield count


def test_a_row_that_changes_often_waits_once(waiting: Messages) -> None:
    """Workers that fall behind would else find thousands of messages before that of a new row."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    for _change in range(5):
        broker.send(TASK, first)
    broker.send(TASK, second)
    assert waiting() == 2


def test_a_change_after_the_work_began_is_another_message(db: None, waiting: Messages) -> None:
    row = str(uuid.uuid4())
    broker.send(TASK, row)
    app.loader.import_default_modules()
    app.tasks[TASK].apply(args=[row])  # runs here, with the signals of a worker
    broker.send(TASK, row)
    assert waiting() == 2


def test_what_a_killed_worker_had_fetched_is_sent_again(waiting: Messages) -> None:
    row = str(uuid.uuid4())
    broker.send(TASK, row)
    broker.forget_waiting()
    broker.send(TASK, row)
    assert waiting() == 2


def test_what_somebody_waits_for_is_taken_up_before_what_a_cluster_tells(waiting: Messages) -> None:
    told, asked = [str(uuid.uuid4()) for _ in range(3)], str(uuid.uuid4())
    for row in told:
        broker.send(TASK, row, priority=broker.SEEN)
    broker.send(TASK, asked)
    broker.send(TASK, asked, priority=broker.SEEN)
    assert waiting() == 4, "whoever takes up what was asked for sees what was told before that"
    broker.send(TASK, told[2])
    assert waiting.taken() == [asked, told[2], *told]
