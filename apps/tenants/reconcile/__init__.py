"""One look at a tenant's place, and one step towards what was promised."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from apps.adapters.errors import Conflict, Unavailable
from apps.adapters.kubernetes.answers import RightMissing
from apps.clusters.services.connect import connect
from apps.tenants.models import Placement
from apps.tenants.reconcile.leave import Leaving
from apps.tenants.reconcile.place import Placing
from apps.tenants.services.seen import Look, keep

RETRY = timedelta(seconds=2)

__all__ = ["reconcile_placement"]


def reconcile_placement(placement: Placement) -> None:
    """Make, compare or take away; a repeat changes nothing."""
    if placement.state == Placement.State.GONE:
        keep(placement, Look(placement.state, None))
        return
    work: Placing | Leaving | None = None
    try:
        api = connect(placement.cluster)
        work = (Leaving if placement.state == Placement.State.LEAVING else Placing)(api, placement)
        look = work.run()
    except (Unavailable, Conflict, RightMissing) as error:
        # A conflict is another worker making the same object at this moment; a right is missing for a moment after the
        # API server's start.
        steps = work.steps if work else None
        look = Look(placement.state, timezone.now() + RETRY, error.text, steps)
    keep(placement, look)
