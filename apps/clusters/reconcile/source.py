"""Checking what was entered as a cluster's Prometheus or Loki, and clearing away what is not in use any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import structlog
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.errors import NotFound, OutsideError, Refused
from apps.adapters.loki import Loki
from apps.adapters.prometheus import Prometheus
from apps.adapters.source import Address
from apps.clusters.models import ClusterSource
from apps.clusters.services import sources
from apps.clusters.services.connect import vault

log = structlog.get_logger(__name__)

ADAPTERS: Mapping[str, Callable[[Address], Prometheus | Loki]] = {
    sources.Kind.PROMETHEUS: Prometheus,
    sources.Kind.LOKI: Loki,
}
LEASE = timedelta(minutes=2)
RETRY, LATE = timedelta(seconds=5), timedelta(minutes=10)
"""How often the secrets server is asked again when it is away, and when its policy says no."""


def check_source(source_id: int) -> None:
    """Ask what was entered and take it into use or not; else destroy its token, and the row with it."""
    rows = ClusterSource.objects.filter(pk=source_id, due_at__lte=Now())
    if not rows.update(due_at=timezone.now() + LEASE):
        return
    row = ClusterSource.objects.select_related("cluster").get(pk=source_id)
    try:
        if row.state == ClusterSource.State.CHECKING:
            _check(row)
        else:
            _clear(row)
    except OutsideError as error:
        log.warning("cluster_source_waits", source=source_id, error=error.text)
        pause = LATE if isinstance(error, Refused) else RETRY
        ClusterSource.objects.filter(pk=source_id).update(due_at=timezone.now() + pause)


def _check(row: ClusterSource) -> None:
    try:
        token = vault().read(row.path).get("token", "") if row.has_token else ""
    except NotFound:
        sources.refuse_source(row, "The token is not in the secrets server: enter it again.")
        return
    try:
        asked = ADAPTERS[row.kind](sources.address_of(row, (lambda: token) if token else None))
        try:
            version = asked.version()
        finally:
            asked.close()
    except OutsideError as error:
        sources.refuse_source(row, error.text)
    else:
        sources.accept_source(row, version)


def _clear(row: ClusterSource) -> None:
    if row.has_token:
        vault().delete(row.path)
    ClusterSource.objects.filter(pk=row.pk).exclude(state=ClusterSource.State.READY).delete()
