"""A tenant's place in a cluster."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Permission


class PlacementQuerySet(TenantOwnedQuerySet["Placement"]):
    view_permission = Permission.TENANT_VIEW


class Placement(models.Model):
    """Namespace and queue of a tenant in one cluster. `steps` is what was last found: `[{"object", "state"}]`."""

    class State(models.TextChoices):
        ASKED = "asked"
        READY = "ready"
        FAILED = "failed"

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+")
    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.PROTECT, related_name="+")
    namespace = models.CharField(max_length=63)
    queue = models.CharField(max_length=63)
    accelerator = models.CharField(max_length=120, default="nvidia.com/gpu")
    gpus = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State, default=State.ASKED)
    problem = models.TextField(blank=True)
    due_at = models.DateTimeField(null=True, db_default=Now())
    created_at = models.DateTimeField(db_default=Now())

    objects = PlacementQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "cluster"], name="placement_once"),
            models.UniqueConstraint(fields=["cluster", "namespace"], name="placement_namespace"),
        ]
        indexes = [models.Index(fields=["due_at"], name="placement_due", condition=Q(due_at__isnull=False))]

    @property
    def is_ready(self) -> bool:
        return self.state == self.State.READY
