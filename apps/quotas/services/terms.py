"""What a request asks for and what was offered, read from its rows."""

from __future__ import annotations

from apps.quotas.domain.asking import Terms
from apps.quotas.domain.pool import Pool
from apps.quotas.models import QuotaRequest


def asked_terms(request: QuotaRequest) -> Terms:
    amounts = {item.allowance.pool: item.amount for item in request.items.select_related("allowance")}
    return Terms(amounts, request.starts_at, request.ends_at)


def offered_terms(request: QuotaRequest) -> Terms:
    """The offer that waits for the asker."""
    amounts = {item.allowance.pool: item.offered or 0 for item in request.items.select_related("allowance")}
    return Terms(amounts, request.offered_starts_at or request.starts_at, request.offered_ends_at or request.ends_at)


def params_of(terms: Terms) -> dict[str, str]:
    """For the sentences of the audit log and of notices."""
    return {
        "amounts": ", ".join(f"+{amount:,} {named(pool)}" for pool, amount in sorted(terms.amounts.items()) if amount),
        "since": terms.starts_at.isoformat(),
        "until": terms.ends_at.isoformat(),
    }


def named(pool: Pool) -> str:
    """A pool in sentences that are kept: what its accelerators are called may not be known when they are read."""
    return f"{pool.resource} ({pool.cluster})"
