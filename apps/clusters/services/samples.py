"""How much of a cluster was in use: written by the watch process now and then, read by the fleet's page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from apps.clusters.domain.capacity import Capacity
from apps.clusters.models import Cluster, ClusterSample

SAMPLE_SECONDS = 600.0
KEPT = timedelta(days=8)
SHOWN = timedelta(hours=24)
GAP = timedelta(seconds=2.5 * SAMPLE_SECONDS)
"""Further apart than this, nothing is known of the time between two samples."""


@transaction.atomic
def note_sample(cluster_id: int, capacity: Capacity) -> None:
    """Keep how a cluster stands now."""
    rows = ClusterSample.objects.filter(cluster_id=cluster_id)
    rows.filter(at__lt=timezone.now() - KEPT).delete()
    in_pieces = capacity.free - capacity.free_whole
    rows.create(
        cluster_id=cluster_id, total=capacity.total, used=capacity.used, free=capacity.free, in_pieces=in_pieces
    )


@dataclass(frozen=True)
class Past:
    """A day of a cluster. `runs` are stretches without a gap, of moments and accelerators in use; `mean` is percent of
    what was there."""

    runs: list[list[tuple[datetime, int]]]
    most: int
    mean: int
    begin: datetime
    end: datetime


def past(cluster: Cluster) -> Past | None:
    """The last 24 hours of a cluster; None before there are two samples."""
    end = timezone.now()
    rows = ClusterSample.objects.filter(cluster=cluster, at__gte=end - SHOWN).order_by("at")
    samples = list(rows.values_list("at", "used", "total"))
    had = sum(total for _at, _used, total in samples)
    if len(samples) < 2 or not had:
        return None
    runs: list[list[tuple[datetime, int]]] = []
    for at, used, _total in samples:
        if not runs or at - runs[-1][-1][0] > GAP:
            runs.append([])
        runs[-1].append((at, used))
    most = max(max(used, total) for _at, used, total in samples)
    mean = round(100 * sum(used for _at, used, _total in samples) / had)
    return Past(runs, most, mean, end - SHOWN, end)
