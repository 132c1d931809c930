"""Waking background work, by name, once the transaction has committed."""

from __future__ import annotations

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)


def wake(task: str, *args: int | str) -> None:
    """Send `task(*args)` after commit. A lost message costs seconds, never work: the row says it is due."""
    transaction.on_commit(lambda: send(task, *args), robust=True)


def send(task: str, *args: int | str) -> None:
    """Send now. A broker that is away is logged and forgotten; the sweep finds the row."""
    try:
        current_app.send_task(task, args=args, ignore_result=True, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("wake_lost", task=task, error=str(error))
