"""Entry points for background work on models."""

from celery import shared_task

from apps.adapters.broker import send
from apps.catalog.reconcile.blob import remove_blob
from apps.catalog.reconcile.transfer import reconcile_transfer
from apps.catalog.services import background
from apps.clusters import services as clusters


@shared_task(name="catalog.reconcile_transfer")
def reconcile_transfer_task(transfer_id: str) -> None:
    if clusters.look(background.transfer_rows(transfer_id), reconcile_transfer):
        send("catalog.reconcile_transfer", transfer_id)


@shared_task(name="catalog.remove_blob")
def remove_blob_task(digest: str) -> None:
    remove_blob(digest)
