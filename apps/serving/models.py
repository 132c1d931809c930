"""Deployments, their replicas and history, and the keys that open them."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from ulid import ULID

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Permission
from apps.serving.domain.engines import ENGINES, Engine
from apps.serving.domain.fit import SHAPES, Shape
from apps.serving.domain.phases import ALIVE, Phase, Wanted


def new_id() -> str:
    """26 characters, sorted by time; the deployment's objects in the cluster are named after it."""
    return str(ULID())


class DeploymentQuerySet(TenantOwnedQuerySet["Deployment"]):
    view_permission = Permission.DEPLOYMENT_VIEW

    def alive(self) -> Self:
        return self.filter(phase__in=ALIVE)


class Deployment(models.Model):
    """A served model from the button to its removal. The row is the queue: `due_at` says when to look at it again,
    `lease_until` that somebody does. Only `moves.move` writes `phase`.

    `facts`, `model` and `model_version` are the version's as they were when it was deployed; `held` is how many
    accelerators it holds of the tenant's quota; `settled` how many replicas were last ready all together; `slug` is its
    part of the address; `routed` the endpoints that the gateway was last told; `request_key` makes a request that is
    sent twice one deployment.
    """

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    owner = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    placement = models.ForeignKey("tenants.Placement", on_delete=models.PROTECT, related_name="+")
    version = models.ForeignKey("catalog.ModelVersion", null=True, on_delete=models.SET_NULL, related_name="+")
    name = models.CharField(max_length=63)
    slug = models.CharField(max_length=63, unique=True)
    model = models.CharField(max_length=63)
    model_version = models.PositiveIntegerField()
    facts = models.JSONField(default=dict)
    engine = models.CharField(max_length=20)
    shape = models.CharField(max_length=20)
    replicas = models.PositiveIntegerField()
    held = models.PositiveIntegerField(default=0)
    settled = models.PositiveIntegerField(default=0)
    phase = models.CharField(max_length=10, default=Phase.ASKING, choices=[(p.value, p.value) for p in Phase])
    phase_at = models.DateTimeField(db_default=Now())
    wanted = models.CharField(max_length=8, default=Wanted.RUN, choices=[(w.value, w.value) for w in Wanted])
    wanted_by = models.CharField(max_length=200, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    ticket_until = models.DateTimeField(null=True)
    routed = models.JSONField(default=list)
    route_again = models.BooleanField(default=False)
    request_key = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    ready_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True, db_default=Now())
    lease_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)

    objects = DeploymentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "request_key"], name="deployment_request_once", condition=~Q(request_key="")
            )
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="deployment_tenant"),
            models.Index(fields=["due_at"], name="deployment_due", condition=Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> Phase:
        return Phase(self.phase)

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this deployment and its log lines are kept."""
        return f"deployment.{self.pk}"

    @property
    def subject(self) -> str:
        """What its quota is held for, and what audit entries speak of."""
        return f"deployment:{self.pk}"

    @property
    def by(self) -> Engine:
        return ENGINES[self.engine]

    @property
    def size(self) -> Shape:
        return SHAPES[self.shape]

    @property
    def accelerators(self) -> int:
        """Of all wanted replicas together."""
        return self.replicas * self.size.accelerators


class DeploymentPhase(models.Model):
    """The history of a deployment: one row for each move."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="+")
    phase = models.CharField(max_length=10)
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["deployment", "id"], name="deploymentphase_deployment")]


class Replica(models.Model):
    """One pod of a deployment as last seen; `stage` is a phase on the way to ready, `stage_at` when it was first seen
    there; `done` of `total` bytes are fetched while it loads."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="+")
    pod_uid = models.CharField(max_length=64, unique=True)
    pod_name = models.CharField(max_length=63)
    node = models.CharField(max_length=253, blank=True)
    ip = models.CharField(max_length=45, blank=True)
    stage = models.CharField(max_length=10)
    stage_at = models.DateTimeField(db_default=Now())
    ready = models.BooleanField(default=False)
    going = models.BooleanField(default=False)
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    restarts = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    done = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["deployment", "pod_name"], name="replica_deployment")]

    @property
    def short(self) -> str:
        """Its pod's name without what all pods of the deployment have."""
        return self.pod_name.removeprefix(f"d-{self.deployment_id.lower()}-")

    @property
    def percent(self) -> int | None:
        """How much of the model has been fetched; None while that is not known."""
        return min(100, round(100 * self.done / self.total)) if self.total else None


class DeploymentKeyQuerySet(TenantOwnedQuerySet["DeploymentKey"]):
    view_permission = Permission.DEPLOYMENT_VIEW


class DeploymentKey(models.Model):
    """A key with which programs call a deployment. Only its SHA-256 is kept: it is drawn at random, 256 bits long, so
    there is nothing to guess that a slow hash would slow down."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=63)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    requests_per_minute = models.PositiveIntegerField()
    created_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = DeploymentKeyQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name
