"""Names of what pages follow: `kind.id`, such as `job.01J9…` or `cluster.3`."""

from __future__ import annotations

import re

_TOPIC = re.compile(r"([a-z]{1,20})\.([A-Za-z0-9_-]{1,59})")


def parse_topic(topic: str) -> tuple[str, str] | None:
    """Kind and id, or None for a text that is no topic."""
    match = _TOPIC.fullmatch(topic)
    return (match[1], match[2]) if match else None
