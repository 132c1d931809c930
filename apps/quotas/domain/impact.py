"""What a request would change, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Grant:
    """`amount` more from a begin up to an end."""

    amount: int
    starts_at: datetime
    ends_at: datetime


def peak(grants: Iterable[Grant], starts_at: datetime, ends_at: datetime) -> int:
    """The most that some grants come to at any one moment of a stretch of time."""
    within = [grant for grant in grants if grant.starts_at < ends_at and grant.ends_at > starts_at]
    moments = {starts_at, *(max(grant.starts_at, starts_at) for grant in within)}
    return max(sum(g.amount for g in within if g.starts_at <= moment < g.ends_at) for moment in moments)
