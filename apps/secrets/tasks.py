"""Entry points for background work on secrets."""

from celery import shared_task

from apps.secrets.services import store


@shared_task(name="secrets.destroy")
def destroy_task(secret_id: int) -> None:
    store.destroy(secret_id)


@shared_task(name="secrets.tend")
def tend_task(loan_id: int) -> None:
    store.tend(loan_id)
