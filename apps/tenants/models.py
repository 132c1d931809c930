"""A tenant's place in a cluster, and the requests that new tenants begin with."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Actor, Permission
from apps.clusters.services.catalogue import default_resource
from apps.quotas.services import Pool
from apps.tenants.domain.drift import Found


class PlacementQuerySet(TenantOwnedQuerySet["Placement"]):
    view_permission = Permission.TENANT_VIEW

    def standing(self) -> Self:
        """Those that work may go to: neither being removed nor gone."""
        return self.exclude(state__in=(Placement.State.LEAVING, Placement.State.GONE))


class Placement(models.Model):
    """Namespace and queue of a tenant in one cluster.

    How many accelerators it may have is known to quotas. `steps` is what was found at the last look, object by object
    (`Found.to_row`); `round` how often all of it was asked to be applied. An object whose mark names an earlier round
    or other contents is applied; one whose mark is current is only compared.
    """

    class State(models.TextChoices):
        ASKED = "asked"
        READY = "ready"
        FAILED = "failed"
        LEAVING = "leaving"
        GONE = "gone"

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+")
    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.PROTECT, related_name="+")
    namespace = models.CharField(max_length=63)
    queue = models.CharField(max_length=63)
    accelerator = models.CharField(max_length=120, default=default_resource)
    state = models.CharField(max_length=8, choices=State, default=State.ASKED)
    problem = models.TextField(blank=True)
    steps = models.JSONField(default=list)
    round = models.PositiveIntegerField(default=1)
    looked_at = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
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
    def pool(self) -> Pool:
        """What its jobs take accelerators from."""
        return Pool(self.cluster.slug, self.accelerator)

    @property
    def is_ready(self) -> bool:
        return self.state == self.State.READY

    @property
    def is_standing(self) -> bool:
        """Whether work may go there, now or once it is ready."""
        return self.state not in (self.State.LEAVING, self.State.GONE)

    @property
    def is_busy(self) -> bool:
        """Whether news of it are to be expected at once."""
        return self.due_at is not None and self.due_at <= timezone.now() + timedelta(seconds=2)

    @property
    def found(self) -> list[Found]:
        """Its objects as last seen, in the order in which they are applied."""
        return [Found.from_row(row) for row in self.steps]

    @property
    def off(self) -> list[Found]:
        """Those that are not as they should be."""
        return [one for one in self.found if one.is_off]


class TenantRequestQuerySet(models.QuerySet["TenantRequest"]):
    """A request belongs to who asked, until there is a tenant; whoever sees every tenant sees every request."""

    def visible_to(self, actor: Actor) -> Self:
        if actor.tenants_where(Permission.TENANT_VIEW) is None:
            return self.all()
        return self.filter(asked_by_id=actor.user_pk) if actor.user_pk else self.none()

    def for_system(self) -> Self:
        return self.all()

    def open(self) -> Self:
        return self.filter(state=TenantRequest.State.OPEN)


class TenantRequest(models.Model):
    """A tenant that somebody asks for. `gpus` is what was asked, `granted` what an operator gave."""

    class State(models.TextChoices):
        OPEN = "open"
        APPROVED = "approved"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"

    slug = models.SlugField(max_length=30)
    name = models.CharField(max_length=80)
    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.PROTECT, related_name="+")
    gpus = models.PositiveIntegerField()
    reason = models.TextField()
    asked_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=9, choices=State, default=State.OPEN)
    granted = models.PositiveIntegerField(null=True)
    note = models.TextField(blank=True)
    decided_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+", null=True)
    decided_at = models.DateTimeField(null=True)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", null=True)

    objects = TenantRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slug"], condition=Q(state="open"), name="tenant_request_open_once"),
        ]
        indexes = [models.Index(fields=["asked_by", "-id"], name="tenant_request_asked_by")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this request."""
        return f"tenantrequest.{self.pk}"
