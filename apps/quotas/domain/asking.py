"""What may be asked for and offered: amounts, a reason, a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apps.quotas.domain.pool import Pool

LARGEST = 1_000_000
"""More accelerators than any cluster has."""

LONGEST = timedelta(days=366)
REASON_LIMIT = 1000


@dataclass(frozen=True)
class Terms:
    """How much more of which pools, from when until when."""

    amounts: Mapping[Pool, int]
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class Problem:
    """Why something cannot be asked for: a code with its parameters, at a field ("amounts", "starts_at", …)."""

    field: str
    code: str
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class InvalidRequest(Exception):
    """Every problem of what was asked or offered."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__([problem.code for problem in problems])
        self.problems = problems


def problems_of(terms: Terms, now: datetime) -> list[Problem]:
    """What is wrong with the amounts and the time, whoever says them."""
    found = []
    if not any(terms.amounts.values()):
        found.append(Problem("amounts", "nothing"))
    for pool, amount in terms.amounts.items():
        if not 0 <= amount <= LARGEST:
            found.append(Problem("amounts", "amount-range", {"amount": amount, "maximum": LARGEST, "pool": str(pool)}))
    if terms.ends_at <= now:
        found.append(Problem("ends_at", "past"))
    elif terms.ends_at <= terms.starts_at:
        found.append(Problem("ends_at", "backward"))
    elif terms.ends_at - max(terms.starts_at, now) > LONGEST:
        found.append(Problem("ends_at", "too-long", {"days": LONGEST.days}))
    if terms.starts_at > now + LONGEST:
        found.append(Problem("starts_at", "too-far", {"days": LONGEST.days}))
    return found


def problems_of_reason(reason: str) -> list[Problem]:
    if not reason.strip():
        return [Problem("reason", "no-reason")]
    if len(reason) > REASON_LIMIT:
        return [Problem("reason", "long-reason", {"maximum": REASON_LIMIT})]
    return []


def problems_of_offer(offer: Terms, asked: Terms) -> list[Problem]:
    """An offer gives no more than was asked for (who decided before decided on that), and something else."""
    found = [
        Problem("amounts", "more-than-asked", {"amount": amount, "asked": asked.amounts.get(pool, 0)})
        for pool, amount in offer.amounts.items()
        if amount > asked.amounts.get(pool, 0)
    ]
    if offer == asked:
        found.append(Problem("amounts", "same-as-asked"))
    return found
