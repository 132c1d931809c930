"""Names of what pages follow: `kind.id`, such as `job.01J9…` or `cluster.3`."""

from __future__ import annotations

import re

_TOPIC = re.compile(r"([a-z]{1,20})\.([A-Za-z0-9_-]{1,59})")


def parse_topic(topic: str) -> tuple[str, str] | None:
    """Kind and id, or None for a text that is no topic."""
    match = _TOPIC.fullmatch(topic)
    return (match[1], match[2]) if match else None


def group_of(topic: str) -> str:
    """The Channels group that hears of a topic."""
    if parse_topic(topic) is None:
        raise ValueError(f"Not a topic: {topic!r}.")
    return f"topic.{topic}"


def group_of_user(user_pk: str) -> str:
    """The Channels group of all open pages of one person."""
    return f"user.{user_pk}"
