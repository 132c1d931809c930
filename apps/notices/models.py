"""What each person was told."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.types import Actor, Permission
from apps.notices.domain import KEPT_DAYS


class NoticeQuerySet(models.QuerySet["Notice"]):
    def visible_to(self, actor: Actor) -> Self:
        """The actor's own notices of the last KEPT_DAYS, without those of tenants they have left."""
        kept = timezone.now() - timedelta(days=KEPT_DAYS)
        own = self.filter(user_id=actor.user_pk or None, at__gt=kept)
        tenants = actor.tenants_where(Permission.TENANT_VIEW)
        return own if tenants is None else own.filter(Q(tenant=None) | Q(tenant_id__in=tenants))

    def for_system(self) -> Self:
        """Every row, for work that no person asked for."""
        return self.all()

    def unread(self) -> Self:
        return self.filter(read_at=None)


class Notice(models.Model):
    """One line of one person's inbox: a kind with its parameters, put into words when it is read.

    The foreign keys never hold anything up: a notice goes with its reader, and outlives its tenant.
    """

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="+", db_index=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.SET_NULL, null=True, related_name="+")
    kind = models.CharField(max_length=80)
    params = models.JSONField(default=dict)
    link = models.CharField(max_length=300, blank=True)
    digest = models.CharField(max_length=32)
    at = models.DateTimeField(db_default=Now())
    read_at = models.DateTimeField(null=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        constraints = [
            # Told twice is told once, until it was read. Serves the count of unread notices too.
            models.UniqueConstraint(fields=["user", "digest"], condition=Q(read_at=None), name="notice_unread_once")
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_user"),
            models.Index(fields=["at"], name="notice_at"),
        ]
