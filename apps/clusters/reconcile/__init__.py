"""Background steps for clusters: what was entered is checked, what is in use is looked at, what was removed cleared."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import ProtectedError
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.errors import NotFound, OutsideError, Refused
from apps.clusters.models import Cluster, ClusterEntry
from apps.clusters.reconcile.look import Asked, look
from apps.clusters.reconcile.source import check_source
from apps.clusters.services import checking
from apps.clusters.services.connect import vault
from apps.clusters.services.registration import ALL
from apps.streams.services import hint

log = structlog.get_logger(__name__)

LEASE = timedelta(minutes=3)
"""Longer than all calls of one look; after it, a dead worker's row is due again."""
RETRY, LATE = timedelta(seconds=5), timedelta(minutes=10)
"""How often the secrets server is asked again when it is away, and when its policy says no."""

__all__ = ["check_entry", "check_source", "tend"]


def check_entry(entry_id: int) -> None:
    """Check what was entered and take it into use or not; else destroy a token that is not needed any more."""
    rows = ClusterEntry.objects.filter(pk=entry_id, due_at__lte=Now())
    if not rows.update(due_at=timezone.now() + LEASE):
        return
    entry = ClusterEntry.objects.select_related("cluster").get(pk=entry_id)
    try:
        if entry.state == ClusterEntry.State.CHECKING:
            _check(entry)
        else:
            _destroy(entry)
    except OutsideError as error:
        log.warning("cluster_entry_waits", entry=entry_id, error=error.text)
        ClusterEntry.objects.filter(pk=entry_id).update(due_at=timezone.now() + _pause(error))


def _check(entry: ClusterEntry) -> None:
    cluster = entry.cluster
    try:
        token = vault().read(entry.path).get("token", "")
    except NotFound:
        token = ""
    others = Cluster.objects.for_system().used().exclude(pk=cluster.pk)
    asked = Asked(entry.server, entry.ca_pem, token, cluster.uid, dict(others.values_list("uid", "name")))
    findings = look(asked, lambda checks: checking.note_progress(entry, checks))
    if not findings.passes:
        checking.refuse(entry, findings)
    elif ClusterEntry.objects.filter(pk=entry.pk, state=ClusterEntry.State.CHECKING).exists():
        vault().write(cluster.credential_path, {"token": token})
        if checking.accept(entry, findings):
            _destroy(entry)


def _destroy(entry: ClusterEntry) -> None:
    vault().delete(entry.path)
    mine = ClusterEntry.objects.filter(pk=entry.pk).exclude(state=ClusterEntry.State.CHECKING)
    mine.filter(state=ClusterEntry.State.STORING).update(state=ClusterEntry.State.DROPPED)
    mine.update(due_at=None)
    with transaction.atomic():
        hint(entry.cluster.topic)


def tend(cluster_id: int) -> None:
    """Look at a cluster with the credential in use, or clear away what is left of a removed one."""
    rows = Cluster.objects.for_system().filter(pk=cluster_id, due_at__lte=Now())
    if not rows.update(due_at=timezone.now() + LEASE):
        return
    cluster = Cluster.objects.for_system().get(pk=cluster_id)
    try:
        if cluster.state == Cluster.State.LEAVING:
            _clear(cluster)
        elif cluster.is_ready:
            checking.warn(cluster.pk)
            others = Cluster.objects.for_system().used().exclude(pk=cluster.pk)
            names = dict(others.values_list("uid", "name"))
            token = vault().read(cluster.credential_path).get("token", "")
            checking.keep(cluster, look(Asked(cluster.server, cluster.ca_pem, token, cluster.uid, names)))
        else:
            rows.model.objects.for_system().filter(pk=cluster_id).update(due_at=None)
    except OutsideError as error:
        log.warning("cluster_waits", cluster=cluster_id, error=error.text)
        Cluster.objects.for_system().filter(pk=cluster_id).update(due_at=timezone.now() + _pause(error))


def _clear(cluster: Cluster) -> None:
    """Destroy every token of a removed cluster, then its row; where history names it, the row stays without them."""
    for entry in cluster.entries.exclude(due_at=None):
        vault().delete(entry.path)
    for source in cluster.sources.filter(has_token=True):
        vault().delete(source.path)
    vault().delete(cluster.credential_path)
    with transaction.atomic():
        try:
            with transaction.atomic():
                cluster.delete()
        except ProtectedError:
            cluster.sources.all().delete()
            gone = {"state": Cluster.State.GONE, "due_at": None, "ca_pem": "", "account": ""}
            Cluster.objects.for_system().filter(pk=cluster.pk).update(**gone)
        hint(ALL)


def _pause(error: OutsideError) -> timedelta:
    return LATE if isinstance(error, Refused) else RETRY
