"""Models, their versions, where these come from, and the files they are made of."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils import timezone
from ulid import ULID

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Actor, Permission
from apps.catalog.domain.moving import ENDED, Moving
from apps.catalog.domain.stages import Files, Stage, Visibility


def new_id() -> str:
    """26 characters, sorted by time."""
    return str(ULID())


class RegisteredModelQuerySet(TenantOwnedQuerySet["RegisteredModel"]):
    view_permission = Permission.MODEL_VIEW

    def visible_to(self, actor: Actor) -> Self:
        """Those of the actor's tenants, and the public ones of others that have an approved version."""
        tenants = actor.tenants_where(self.view_permission)
        if tenants is None:
            return self.all()
        if not tenants:
            return self.none()
        return self.filter(Q(tenant_id__in=tenants) | Q(visibility=Visibility.PUBLIC, stage=Stage.APPROVED))


class RegisteredModel(models.Model):
    """A model by its name. `stage`, `format`, `bytes`, `weight_bytes` and `parameters` are those of the version that
    has come farthest (the newest of these), kept here by `moves.restate` for lists and their filters."""

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=63)
    licence = models.CharField(max_length=80)
    visibility = models.CharField(
        max_length=6, default=Visibility.TENANT, choices=[(v.value, v.value) for v in Visibility]
    )
    card = models.TextField(blank=True)
    tags = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    created_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    versions = models.PositiveIntegerField(default=0)
    """The number of the newest version; numbers are never given twice."""
    stage = models.CharField(max_length=9, default=Stage.DRAFT, choices=[(s.value, s.value) for s in Stage])
    format = models.CharField(max_length=20, blank=True)
    bytes = models.PositiveBigIntegerField(default=0)
    weight_bytes = models.PositiveBigIntegerField(null=True)
    parameters = models.PositiveBigIntegerField(null=True)

    objects = RegisteredModelQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(Lower("name"), "tenant", name="model_name_once")]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="model_tenant"),
            models.Index(fields=["-id"], name="model_public", condition=Q(visibility="public", stage="approved")),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this model and its versions."""
        return f"registeredmodel.{self.pk}"


class ModelVersionQuerySet(TenantOwnedQuerySet["ModelVersion"]):
    view_permission = Permission.MODEL_VIEW

    def visible_to(self, actor: Actor) -> Self:
        """Those of the actor's tenants; of other tenants' public models the approved ones."""
        tenants = actor.tenants_where(self.view_permission)
        if tenants is None:
            return self.all()
        if not tenants:
            return self.none()
        public = Q(model__visibility=Visibility.PUBLIC, stage=Stage.APPROVED)
        return self.filter(Q(tenant_id__in=tenants) | public)


class ModelVersion(models.Model):
    """One version of a model: files by digest, what their headers say, and where they come from.

    `facts` is read from headers only: `{"format", "parameters", "bytes", "tensors", "dtypes": {name: parameters},
    "context", "architecture", "quantisation", "step", "unopened": [path], "faults": [{"path", "code"}]}`; what is not
    known is None or not there. `lineage` is what the version was made from, kept for good whatever becomes of it:
    `{"job": {"id", "name", "attempt", "owner", "template", "gpus", "submitted_at"}, "code": {"image", "command"},
    "data": {"name", "digest"}, "parameters": {…}, "metrics": {"loss": {"first", "last", "best", "step"}},
    "checkpoint": {"name", "step", "saved_at"}}`.
    """

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+")
    number = models.PositiveIntegerField()
    note = models.CharField(max_length=500, blank=True)
    author = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    stage = models.CharField(max_length=9, default=Stage.DRAFT, choices=[(s.value, s.value) for s in Stage])
    files = models.CharField(max_length=6, default=Files.COMING, choices=[(f.value, f.value) for f in Files])
    facts = models.JSONField(default=dict)
    lineage = models.JSONField(default=dict)
    bytes = models.PositiveBigIntegerField(default=0)
    key = models.CharField(max_length=64, blank=True)
    """What names the request that registered it: the same request again finds the same version."""
    created_at = models.DateTimeField(db_default=Now())

    objects = ModelVersionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "number"], name="model_version_once"),
            models.UniqueConstraint(fields=["author", "key"], name="model_version_key", condition=~Q(key="")),
        ]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.number}"

    @property
    def is_ready(self) -> bool:
        """Whether its files are all in storage, so that it can be deployed and downloaded."""
        return self.files == Files.READY


class StageChange(models.Model):
    """The history of a version's stage: who, when and why."""

    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="+")
    old = models.CharField(max_length=9)
    new = models.CharField(max_length=9)
    by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    comment = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]


class Blob(models.Model):
    """Bytes that lie in storage under their SHA-256 digest, once however many versions have them.

    `due_at` is set when nobody may need them any more; `removing` from then on keeps others from building on them.
    """

    digest = models.CharField(primary_key=True, max_length=64)
    size = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(db_default=Now())
    removing = models.BooleanField(default=False)
    due_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="blob_due", condition=Q(due_at__isnull=False))]


class StoredFile(models.Model):
    """A file of a version: its path in the version, and the bytes by digest."""

    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, db_index=True)
    size = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "path"], name="stored_file_once")]
        ordering = ["path"]


class Transfer(models.Model):
    """Bringing a checkpoint's files from a volume in a cluster to the portal. The row is the queue, as a job's is.

    `plan` is what the pod found: `{"checkpoint": {"name", "step", "saved_at"}, "files": [{"path", "size", "sha256"}]}`;
    `source` where: `{"claim"}`, and `until_step` where later checkpoints do not count. Only the hash of the pod's token
    is kept. The row outlives its version so that what it made in the cluster is taken away in any case.
    """

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    version = models.ForeignKey(ModelVersion, null=True, on_delete=models.SET_NULL, related_name="+")
    placement = models.ForeignKey("tenants.Placement", on_delete=models.PROTECT, related_name="+")
    source = models.JSONField(default=dict)
    phase = models.CharField(max_length=8, default=Moving.ASKED, choices=[(m.value, m.value) for m in Moving])
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    token_digest = models.CharField(max_length=64, blank=True, db_index=True)
    token_until = models.DateTimeField(null=True)
    plan = models.JSONField(default=dict)
    total = models.PositiveBigIntegerField(default=0)
    received = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True, db_default=Now())
    lease_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="transfer_due", condition=Q(due_at__isnull=False))]
        constraints = [
            models.UniqueConstraint(
                fields=["version"], name="transfer_one_alive", condition=~Q(phase__in=sorted(ENDED))
            )
        ]

    @property
    def state(self) -> Moving:
        return Moving(self.phase)

    @property
    def percent(self) -> int:
        """How much has come, of what the plan says."""
        return min(100, round(100 * self.received / self.total)) if self.total else 0

    @property
    def bytes_per_second(self) -> int | None:
        """Over the whole transfer so far; None before the first byte."""
        took = ((self.ended_at or timezone.now()) - self.started_at).total_seconds() if self.started_at else 0
        return round(self.received / took) if took > 0 and self.received else None

    @property
    def left(self) -> timedelta | None:
        """How long the rest takes at this rate."""
        rate = self.bytes_per_second
        return timedelta(seconds=(self.total - self.received) / rate) if rate and not self.ended_at else None

    def planned(self) -> list[dict[str, Any]]:
        """The files its pod wants to bring."""
        return list(self.plan.get("files", []))


class Grant(models.Model):
    """The right of a workload (`subject`, such as "deployment:7") to read a version's files; only the token's hash is
    kept."""

    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="+")
    subject = models.CharField(max_length=80, db_index=True)
    token_digest = models.CharField(max_length=64, unique=True)
    until = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
