"""Entry points for background work on deployments."""

from celery import shared_task
from django.utils import timezone

from apps.adapters.broker import send
from apps.serving.reconcile.deployment import reconcile_deployment
from apps.serving.services import background


@shared_task(name="serving.reconcile_deployment")
def reconcile_deployment_task(deployment_id: str) -> None:
    if deployment := background.claim(deployment_id):
        again = reconcile_deployment(deployment)
        if background.let_go(deployment, None if again is None else timezone.now() + again):
            send("serving.reconcile_deployment", deployment_id)
