"""How long and how much of logs is kept: what is over is read no more, recorded, and then taken away."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.adapters.errors import Unavailable
from apps.adapters.storage import storage
from apps.audit import services as audit
from apps.streams.models import Segment

log = structlog.get_logger(__name__)

SYSTEM = Actor.system("streams")
EXPIRED = audit.action(
    "log.expired",
    _("Lines {first} to {last} of the log were removed by the rule for old logs"),
    name=_("Remove old lines"),
)
SWEPT = 100
UNSTORED = timedelta(hours=1)
"""Bytes whose row was not settled for so long are nobody's."""
AGAIN = timedelta(seconds=30)


def due_segments() -> list[int]:
    """Ids of segments to take away, once those that are too old are marked."""
    _expire_old()
    return list(Segment.objects.filter(due_at__lte=Now()).order_by("due_at").values_list("pk", flat=True)[:SWEPT])


def make_room(tenant_id: int) -> None:
    """Mark a tenant's oldest segments until the rest fits into what a tenant may keep."""
    if not settings.LOG_KEPT_BYTES:
        return
    mine = Segment.objects.filter(tenant_id=tenant_id, stored=True, due_at=None)
    over = (mine.aggregate(sum=Sum("size"))["sum"] or 0) - settings.LOG_KEPT_BYTES
    going: list[Segment] = []
    for segment in mine.order_by("ends", "pk") if over > 0 else ():
        if over <= 0:
            break
        over -= segment.size
        going.append(segment)
    _expire(going)


def remove_segment(pk: int) -> None:
    """Take a marked segment's bytes away, then its row."""
    segment = Segment.objects.filter(pk=pk, due_at__isnull=False).first()
    if segment is None:
        return
    try:
        storage().remove(segment.digest)
    except Unavailable as error:
        log.warning("storage_unavailable", error=error.text)
        Segment.objects.filter(pk=pk).update(due_at=timezone.now() + AGAIN)
        return
    segment.delete()


@transaction.atomic
def _expire_old() -> None:
    live, now = Segment.objects.filter(due_at=None), timezone.now()
    live.filter(stored=False, created_at__lt=now - UNSTORED).update(due_at=now)
    if settings.LOG_KEPT_DAYS:
        before = int((now - timedelta(days=settings.LOG_KEPT_DAYS)).timestamp()) * 10**9
        old = live.filter(stored=True, ends__lt=before).select_for_update(skip_locked=True)
        _expire(list(old.order_by("ends", "pk")[:SWEPT]))


def _expire(segments: Iterable[Segment]) -> None:
    """Mark segments, and record by topic which lines went. Those that became part of another meanwhile are not over."""
    by_topic: dict[str, list[Segment]] = {}
    standing = Segment.objects.filter(pk__in=[segment.pk for segment in segments], stored=True, due_at=None)
    for segment in standing.select_for_update().order_by("pk"):
        by_topic.setdefault(segment.topic, []).append(segment)
    for topic, going in by_topic.items():
        Segment.objects.filter(pk__in=[segment.pk for segment in going]).update(due_at=Now())
        kind, _, name = topic.partition(".")
        first, last = min(segment.first for segment in going), max(segment.last for segment in going)
        size = sum(segment.size for segment in going)
        tenant_id = going[0].tenant_id
        audit.record(EXPIRED, SYSTEM, f"{kind}:{name}", tenant_id=tenant_id, first=first, last=last, bytes=size)
