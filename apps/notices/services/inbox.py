"""A person's own inbox. What they have read is nobody else's business: it is not in the audit log."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Denied
from apps.notices.models import Notice
from apps.notices.services.telling import topic_of
from apps.streams.services import hint

COUNTED = 100
"""Unread notices are counted up to here; the bell then says 99+."""


@dataclass(frozen=True)
class Wish:
    """Which notices somebody wants to see; empty fields do not narrow."""

    unread: bool = False
    kind: str = ""
    tenant: str = ""


EVERYTHING = Wish()


def inbox(actor: Actor, wish: Wish = EVERYTHING) -> QuerySet[Notice]:
    """The actor's notices that fit."""
    found = Notice.objects.visible_to(actor).select_related("tenant")
    found = found.unread() if wish.unread else found
    found = found.filter(kind=wish.kind) if wish.kind else found
    return found.filter(tenant__slug=wish.tenant) if wish.tenant else found


def unread_count(actor: Actor) -> int:
    """How many unread notices the actor has, at most COUNTED."""
    return Notice.objects.visible_to(actor).unread().order_by()[:COUNTED].count()


def mark_read(actor: Actor, notice_id: int, *, read: bool = True) -> Notice:
    """Mark one of the actor's notices as read, or as unread again. Raises Denied, Notice.DoesNotExist."""
    _may_write(actor)
    with transaction.atomic():
        notice = Notice.objects.visible_to(actor).select_for_update(of=("self",)).get(pk=notice_id)
        if read != (notice.read_at is not None):
            twin = not read and Notice.objects.visible_to(actor).unread().filter(digest=notice.digest).exists()
            # The same was told again since and is unread: that one is enough.
            if not twin:
                Notice.objects.for_system().filter(pk=notice_id).update(read_at=Now() if read else None)
                hint(topic_of(actor.user_pk))
    notice.refresh_from_db()
    return notice


def mark_all_read(actor: Actor, up_to: int) -> int:
    """Mark what the actor has seen as read: everything up to this notice, so that one that came meanwhile stays unread.
    Raises Denied."""
    _may_write(actor)
    with transaction.atomic():
        read = Notice.objects.visible_to(actor).unread().filter(pk__lte=up_to).update(read_at=Now())
        if read:
            hint(topic_of(actor.user_pk))
    return read


def _may_write(actor: Actor) -> None:
    if actor.read_only:
        raise Denied("inbox.mark", _("This API token may only read."), target=actor.id)
