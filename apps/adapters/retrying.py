"""When to come back: as a server asks, and after so many tries that failed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime

from django.utils import timezone

from apps.adapters.errors import OutsideError, Unavailable

RETRY_LIMIT = 300.0


def pause(error: OutsideError, failures: int, longest: timedelta) -> timedelta:
    """Until the next try after so many that failed, 1 or more: soon at first, and not before the system wants it."""
    least = error.retry_after if isinstance(error, Unavailable) else 0
    return min(timedelta(seconds=max(least, 2.0 ** min(failures, 10) / 2)), longest)


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
