"""The ledger: what work has used, pod by pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from apps.quotas.domain.pool import Pool
from apps.quotas.models import LedgerEntry


@dataclass(frozen=True)
class PodUse:
    """`amount` accelerators of a pool from a pod's start to its end. `key` is the pod's uid."""

    key: str
    amount: int
    started_at: datetime
    ended_at: datetime

    @property
    def seconds(self) -> int:
        return self.amount * max(0, int((self.ended_at - self.started_at).total_seconds()))


def book(tenant_id: int, pool: Pool, subject: str, pods: Iterable[PodUse]) -> None:
    """Write what pods of a subject have used, in the caller's transaction: one row a pod, however often it is told.
    Told again, a pod's start and end are corrected: its own word may come after an estimate."""
    entries = [
        LedgerEntry(
            tenant_id=tenant_id,
            cluster=pool.cluster,
            resource=pool.resource,
            subject=subject,
            key=pod.key,
            amount=pod.amount,
            started_at=pod.started_at,
            ended_at=max(pod.started_at, pod.ended_at),
            seconds=pod.seconds,
        )
        for pod in sorted(pods, key=lambda pod: pod.key)
        if pod.amount
    ]
    LedgerEntry.objects.bulk_create(
        entries,
        update_conflicts=True,
        unique_fields=["subject", "key"],
        update_fields=["amount", "started_at", "ended_at", "seconds"],
    )


def booked(subject: str) -> int:
    """Accelerator-seconds of one piece of work."""
    return LedgerEntry.objects.filter(subject=subject).aggregate(sum=Sum("seconds"))["sum"] or 0


def booked_since(tenant_ids: Iterable[int], since: datetime) -> dict[tuple[int, Pool], int]:
    """Accelerator-seconds by tenant and pool of pods that ended since then."""
    rows = LedgerEntry.objects.filter(tenant_id__in=list(tenant_ids), ended_at__gte=since)
    sums = rows.values_list("tenant_id", "cluster", "resource").annotate(sum=Sum("seconds"))
    return {(tenant_id, Pool(cluster, resource)): total for tenant_id, cluster, resource, total in sums}
