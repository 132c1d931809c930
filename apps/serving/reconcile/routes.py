"""Telling the gateway where requests to each deployment go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import structlog
from django.conf import settings

from apps.adapters.errors import Unavailable
from apps.adapters.gateway import ROUTES, Backend, Endpoint, Route
from apps.clusters import services as clusters
from apps.serving.domain.phases import Phase, Wanted
from apps.serving.models import Deployment, Replica
from apps.serving.services import reading

log = structlog.get_logger(__name__)

WEIGHT = 100


def keep_routes(deployment: Deployment) -> bool:
    """Make the gateway's files say what is ready now, if that of this deployment has changed since, or they are not
    there; whether it is to be called again within a minute.

    Of a deployment that is to stop no endpoint is told: its route goes before its replicas do. Files that cannot be
    written hold nothing up: Envoy leaves out replicas that it cannot reach, and the next look tries again.
    """
    if not settings.GATEWAY_DIR:
        return False
    now = _endpoints_of(deployment)
    is_there = (Path(settings.GATEWAY_DIR) / ROUTES).exists()
    if now == deployment.routed and is_there and not deployment.route_again:
        return False
    try:
        again = clusters.refresh_gateway()
    except Unavailable as error:
        log.error("routes_unwritten", deployment=deployment.pk, error=error.text)
        again = True
    Deployment.objects.for_system().filter(pk=deployment.pk).update(routed=now, route_again=again)
    deployment.routed, deployment.route_again = now, again
    return again


def routes() -> Iterable[Route]:
    """Every deployment that is wanted, with the addresses of its ready replicas; one without any answers 503."""
    wanted = Deployment.objects.for_system().exclude(phase=Phase.REMOVED).exclude(wanted=Wanted.REMOVE)
    here = list(wanted.select_related("placement__tenant"))
    ready: dict[str, list[Endpoint]] = defaultdict(list)
    seen = Replica.objects.filter(deployment__in=[d.pk for d in here if d.wanted == Wanted.RUN], ready=True)
    for replica in seen.select_related("deployment"):
        ready[replica.deployment_id].append(Endpoint(replica.ip, replica.deployment.by.port))
    return [
        Route(
            deployment.pk,
            reading.prefix_of(deployment),
            (Backend(f"v{deployment.model_version}", WEIGHT, tuple(sorted(ready[deployment.pk]))),),
        )
        for deployment in here
    ]


def _endpoints_of(deployment: Deployment) -> list[str]:
    """What of it the gateway is to be told; the first says that it has a route at all."""
    if deployment.wanted == Wanted.REMOVE or deployment.state is Phase.REMOVED:
        return []
    ready = Replica.objects.filter(deployment=deployment, ready=True).order_by("ip").values_list("ip", flat=True)
    return [reading.prefix_of(deployment), *(ready if deployment.wanted == Wanted.RUN else ())]
