"""Entry points for background work on deployments."""

from celery import shared_task

from apps.adapters.broker import send
from apps.clusters import services as clusters
from apps.serving.reconcile.deployment import reconcile_deployment
from apps.serving.services import background


@shared_task(name="serving.reconcile_deployment")
def reconcile_deployment_task(deployment_id: str) -> None:
    if clusters.look(background.deployment_rows(deployment_id), reconcile_deployment):
        send("serving.reconcile_deployment", deployment_id)
