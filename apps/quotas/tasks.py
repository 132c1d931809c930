"""Entry points for background work on quota requests."""

from celery import shared_task
from django.utils import timezone

from apps.quotas.models import QuotaRequest
from apps.quotas.services.turning import TURN, turn


@shared_task(name=TURN)
def turn_request_task(request_id: int) -> None:
    turn(QuotaRequest.objects.for_system().get(pk=request_id), timezone.now())
