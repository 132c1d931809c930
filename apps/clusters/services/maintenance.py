"""Maintenance: nothing new begins in a cluster while it lasts; what runs goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.clusters.models import Cluster
from apps.clusters.services.actions import MAINTENANCE_BEGUN, MAINTENANCE_ENDED
from apps.clusters.services.registration import ALL, require_operator
from apps.streams.services import hint

LONGEST_REASON = 300
LONGEST = timedelta(days=366)
"""A year that is typed with a digit too many would be beyond what some zone or the database can tell."""


class Closed(Exception):
    """Nothing new may begin in this cluster. `text` says why, in the reader's language."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True)
class Maintenance:
    """Why, and until when as far as is known. Its end comes by a person, not by the clock."""

    reason: str
    until: datetime | None = None

    def check(self) -> None:
        """Raise ValidationError by field."""
        if not self.reason.isprintable():
            raise ValidationError({"reason": _("Remove line breaks and other characters that cannot be shown.")})
        if not self.reason.strip() or len(self.reason) > LONGEST_REASON:
            said = _("Say in one line of at most {maximum} characters why; people who submit jobs read it.")
            raise ValidationError({"reason": said.format(maximum=LONGEST_REASON)})
        if self.until is not None and self.until <= timezone.now():
            raise ValidationError({"until": _("This time has passed.")})
        if self.until is not None and self.until - timezone.now() > LONGEST:
            raise ValidationError({"until": _("Choose a time within a year; you can change it later.")})


@audit.use_case(MAINTENANCE_BEGUN)
def begin_maintenance(actor: Actor, *, cluster: Cluster, maintenance: Maintenance) -> None:
    """Let nothing new begin; said again, reason and time change. Raises ValidationError, Denied."""
    require_operator(actor)
    maintenance.check()
    here = Cluster.objects.for_system().standing().filter(pk=cluster.pk)
    said = {"maintenance_reason": maintenance.reason.strip(), "maintenance_until": maintenance.until}
    here.filter(maintenance_since=None).update(maintenance_since=Now())
    here.update(**said)
    until = maintenance.until.isoformat(timespec="minutes") if maintenance.until else "–"
    audit.record(
        MAINTENANCE_BEGUN,
        actor,
        f"cluster:{cluster.pk}",
        name=cluster.name,
        reason=maintenance.reason.strip(),
        until=until,
    )
    _tell(cluster)


@audit.use_case(MAINTENANCE_ENDED)
def end_maintenance(actor: Actor, *, cluster: Cluster) -> None:
    """Open the cluster again; one that is open stays so."""
    require_operator(actor)
    here = Cluster.objects.for_system().filter(pk=cluster.pk, maintenance_since__isnull=False)
    if here.update(maintenance_since=None, maintenance_until=None, maintenance_reason=""):
        audit.record(MAINTENANCE_ENDED, actor, f"cluster:{cluster.pk}", name=cluster.name)
        _tell(cluster)


def closed_text(cluster: Cluster) -> str:
    """Why nothing new may begin here, as a sentence; "" where it may."""
    if cluster.maintenance_since is not None and cluster.is_ready:
        return _("{cluster} is in maintenance and takes nothing new: {reason}").format(
            cluster=cluster.name, reason=cluster.maintenance_reason
        )
    if not cluster.is_ready:
        return _("{cluster} is not ready for work.").format(cluster=cluster.name)
    return ""


def require_open(cluster_id: int) -> None:
    """Raise Closed unless something new may begin in this cluster as it stands now."""
    if text := closed_text(Cluster.objects.for_system().get(pk=cluster_id)):
        raise Closed(text)


def _tell(cluster: Cluster) -> None:
    hint(cluster.topic)
    hint(ALL)
