"""What a worker's look at a cluster leaves in the database: findings, a credential taken into use or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.clusters.domain.checks import FAILED, Check, Operator, due_warning, is_rejected, passes
from apps.clusters.models import Cluster, ClusterEntry
from apps.clusters.services.actions import (
    ACCEPTED,
    REFUSED,
    TOLD_EXPIRED,
    TOLD_EXPIRING,
    TOLD_REFUSED,
    TOLD_REJECTED,
)
from apps.clusters.services.registration import ALL
from apps.notices import services as notices
from apps.streams.services import hint

SYSTEM = Actor.system("clusters")
KEPT = timedelta(days=1)
"""How long a token that failed is kept, so that it can be checked again once what was wrong is mended."""
LOOK_AGAIN, RETRY = timedelta(hours=1), timedelta(minutes=1)
SURE = timedelta(seconds=15)
"""A cluster that has just started rejects for a moment what it will take: it is asked again before people are told."""


@dataclass(frozen=True)
class Findings:
    """One look at a cluster with one credential."""

    checks: Sequence[Check]
    operators: Sequence[Operator] = ()
    uid: str = ""
    version: str = ""
    account: str = ""
    expires: datetime | None = None

    @property
    def passes(self) -> bool:
        return passes(self.checks)

    @property
    def failed(self) -> str:
        """The keys of what failed, for the log."""
        return ", ".join(check.key for check in self.checks if check.state == FAILED)


@transaction.atomic
def note_progress(entry: ClusterEntry, checks: Sequence[Check]) -> None:
    """Let open pages see how far the look has come."""
    rows = [check.to_row() for check in checks]
    if ClusterEntry.objects.filter(pk=entry.pk, state=ClusterEntry.State.CHECKING).update(checks=rows):
        hint(entry.cluster.topic)


@transaction.atomic
def accept(entry: ClusterEntry, findings: Findings) -> bool:
    """Take what was entered into use; its token is at the cluster's own path. False if it gave way meanwhile."""
    rows = [check.to_row() for check in findings.checks]
    mine = ClusterEntry.objects.filter(pk=entry.pk, state=ClusterEntry.State.CHECKING)
    if not mine.update(state=ClusterEntry.State.PASSED, checks=rows, checked_at=Now(), due_at=Now()):
        return False
    Cluster.objects.for_system().filter(pk=entry.cluster_id).update(
        server=entry.server,
        ca_pem=entry.ca_pem,
        state=Cluster.State.READY,
        warned_days=None,
        **_found(findings),
    )
    entry.cluster.refresh_from_db()
    until = findings.expires.date().isoformat() if findings.expires else "–"
    account = findings.account or "–"
    target = f"cluster:{entry.cluster_id}"
    audit.record(ACCEPTED, SYSTEM, target, name=entry.cluster.name, account=account, expires=until)
    hint(entry.cluster.topic)
    hint(ALL)
    return True


@transaction.atomic
def refuse(entry: ClusterEntry, findings: Findings) -> None:
    """Keep what was found; what was in use stays in use."""
    rows = [check.to_row() for check in findings.checks]
    mine = ClusterEntry.objects.filter(pk=entry.pk, state=ClusterEntry.State.CHECKING)
    kept = {"state": ClusterEntry.State.FAILED, "checks": rows, "checked_at": Now(), "due_at": timezone.now() + KEPT}
    if not mine.update(**kept):
        return
    cluster = entry.cluster
    if cluster.state == Cluster.State.NEW:
        Cluster.objects.for_system().filter(pk=cluster.pk).update(checked_at=Now())
    audit.record(REFUSED, SYSTEM, f"cluster:{cluster.pk}", name=cluster.name, failed=findings.failed)
    if entry.entered_by_id:
        link = reverse("clusters:detail", args=[cluster.slug])
        notices.tell([entry.entered_by_id], TOLD_REFUSED, link=link, cluster=cluster.name, failed=findings.failed)
    hint(cluster.topic)
    hint(ALL)


@transaction.atomic
def keep(cluster: Cluster, findings: Findings) -> None:
    """Keep a look at a cluster with the credential in use. A silent one keeps what was found while it answered."""
    here = Cluster.objects.for_system().used().filter(pk=cluster.pk)
    if cluster.checks and any((one.key, one.code) == ("reach", "silent") for one in findings.checks):
        here.update(due_at=timezone.now() + RETRY)
        return
    before = [(one.key, one.state, one.code) for one in cluster.found]
    here.update(**_found(findings))
    warn(cluster.pk)
    if is_rejected(findings.checks):
        _note_rejection(cluster)
    elif cluster.is_rejected and not cluster.is_expired:
        here.update(warned_days=None)
    if before != [(one.key, one.state, one.code) for one in findings.checks]:
        hint(cluster.topic)
        hint(ALL)


def _note_rejection(cluster: Cluster) -> None:
    """Tell operators once, when the credential was rejected at two looks in a row."""
    here = Cluster.objects.for_system().filter(pk=cluster.pk)
    if not cluster.is_rejected:
        here.update(due_at=timezone.now() + SURE)
    elif here.exclude(warned_days=0).update(warned_days=0):
        people = accounts.people_with(Permission.CLUSTER_REGISTER, None)
        link = reverse("clusters:detail", args=[cluster.slug])
        notices.tell(people, TOLD_REJECTED, link=link, cluster=cluster.name)


def _found(findings: Findings) -> dict[str, object]:
    found: dict[str, object] = {
        "checks": [check.to_row() for check in findings.checks],
        "checked_at": Now(),
        "expires_at": findings.expires,
        "due_at": timezone.now() + (LOOK_AGAIN if findings.passes else RETRY),
    }
    found |= {key: value for key, value in (("uid", findings.uid), ("account", findings.account)) if value}
    if findings.version:
        found |= {"version": findings.version[:40], "operators": [one.to_row() for one in findings.operators]}
    return found


@transaction.atomic
def warn(cluster_id: int) -> None:
    """Tell operators once that a credential will be over in 14 days, once in 3, and once that it is."""
    cluster = Cluster.objects.for_system().used().select_for_update().filter(pk=cluster_id).first()
    now = timezone.now()
    days = due_warning(cluster.expires_at, now) if cluster else None
    if cluster is None or days is None or (cluster.warned_days is not None and cluster.warned_days <= days):
        return
    Cluster.objects.for_system().filter(pk=cluster_id).update(warned_days=days)
    people = accounts.people_with(Permission.CLUSTER_REGISTER, None)
    link = reverse("clusters:detail", args=[cluster.slug])
    if days == 0:
        notices.tell(people, TOLD_EXPIRED, link=link, cluster=cluster.name)
    else:
        assert cluster.expires_at is not None
        date = cluster.expires_at.date().isoformat()
        notices.tell(people, TOLD_EXPIRING, link=link, cluster=cluster.name, days=days, date=date)
    hint(cluster.topic)


def due_clusters() -> list[int]:
    """Clusters to look at, or to clear away, now."""
    rows = Cluster.objects.for_system().filter(due_at__lte=Now()).order_by(F("due_at"))
    return list(rows.values_list("pk", flat=True)[:100])
