"""Entry points for background work on clusters."""

from celery import shared_task

from apps.clusters import reconcile


@shared_task(name="clusters.check_entry")
def check_entry_task(entry_id: int) -> None:
    reconcile.check_entry(entry_id)


@shared_task(name="clusters.check_source")
def check_source_task(source_id: int) -> None:
    reconcile.check_source(source_id)


@shared_task(name="clusters.tend")
def tend_task(cluster_id: int) -> None:
    reconcile.tend(cluster_id)
