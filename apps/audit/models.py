"""What has happened, for good."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KT
from django.db.models.functions import Collate, Left, Lower, Now

from apps.audit.domain import Result

NAME_LIMIT = 120
NAMED = Collate(Left(Lower(KT("params__name")), NAME_LIMIT), "C")
"""The name recorded with an entry, for a search by its beginning; cut, as an index takes no text of any length."""


class EntryQuerySet(models.QuerySet["Entry"]):
    def of_tenants(self, tenant_ids: frozenset[int] | None) -> EntryQuerySet:
        """Entries of these tenants; None means every tenant and the platform itself."""
        return self if tenant_ids is None else self.filter(tenant_id__in=tenant_ids)


class Entry(models.Model):
    """One action with its parameters. The database role of the portal may INSERT and SELECT here, nothing else.

    There are no foreign keys: what an entry speaks of may be gone. `actor` is a stable id (`user:<uuid>`,
    `system:<name>`); people's names are looked up when an entry is read, so that a name can be erased.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    action = models.CharField(max_length=80)
    result = models.CharField(max_length=8, choices=[(r.value, r.name) for r in Result])
    actor = models.CharField(max_length=80)
    tenant_id = models.BigIntegerField(null=True)
    target = models.CharField(max_length=120)
    params = models.JSONField(default=dict)
    request_id = models.CharField(max_length=64, blank=True)

    objects = EntryQuerySet.as_manager()

    class Meta:
        db_table = "audit_entry"
        # Each ends with the order of the pages, so that one page costs the same however long the log is.
        indexes = [
            models.Index(fields=["-at", "-id"], name="audit_at"),
            models.Index(fields=["tenant_id", "-at", "-id"], name="audit_tenant"),
            models.Index(fields=["target", "-at", "-id"], name="audit_target"),
            models.Index(fields=["actor", "-at", "-id"], name="audit_actor"),
            models.Index(fields=["action", "-at", "-id"], name="audit_action"),
            models.Index(fields=["-at", "-id"], name="audit_refused", condition=Q(result="refused")),
            models.Index(NAMED, name="audit_named"),
        ]
