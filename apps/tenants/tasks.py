"""Entry points for background work on tenants."""

from celery import shared_task

from apps.tenants.models import Placement
from apps.tenants.reconcile import reconcile_placement


@shared_task(name="tenants.reconcile_placement")
def reconcile_placement_task(placement_id: int) -> None:
    reconcile_placement(Placement.objects.for_system().select_related("tenant", "cluster").get(pk=placement_id))
