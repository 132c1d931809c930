"""When a server asks to come back."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from django.utils import timezone

RETRY_LIMIT = 300.0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds (a number or a date), at most five minutes; None when absent or unreadable."""
    value = headers.get("Retry-After") or ""
    try:
        seconds = float(value) if value.strip().isdigit() else _until(value)
    except (TypeError, ValueError):
        return None
    return min(max(seconds, 0.0), RETRY_LIMIT)


def _until(date: str) -> float:
    return (parsedate_to_datetime(date) - timezone.now()).total_seconds()
