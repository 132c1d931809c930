"""Telling open pages that something changed; what it is they ask for themselves, with their own rights."""

from __future__ import annotations

import structlog
from asgiref.sync import async_to_sync
from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

from apps.streams.domain.topics import group_of, group_of_user

log = structlog.get_logger(__name__)


def hint(topic: str) -> None:
    """Tell the pages that follow `topic`, after commit. A lost hint costs freshness only."""
    message = {"type": "topic.changed", "topic": topic}
    group = group_of(topic)
    transaction.on_commit(lambda: _send(group, message), robust=True)


def revoked(user_pk: str) -> None:
    """Tell the open pages of a person to ask at once what they may still follow."""
    group = group_of_user(user_pk)
    transaction.on_commit(lambda: _send(group, {"type": "rights.changed"}), robust=True)


def _send(group: str, message: dict[str, str]) -> None:
    layer = get_channel_layer()
    assert layer is not None
    try:
        async_to_sync(layer.group_send)(group, message)
    except (RedisError, OSError, ChannelFull) as error:
        log.warning("hint_lost", group=group, error=str(error))
