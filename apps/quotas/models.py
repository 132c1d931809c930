"""What tenants may use, what their work holds, what it has used, and the requests for more."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Permission
from apps.quotas.domain.pool import Pool
from apps.quotas.domain.states import State


class AllowanceQuerySet(TenantOwnedQuerySet["Allowance"]):
    view_permission = Permission.QUOTA_VIEW

    def of(self, tenant_id: int, pool: Pool) -> AllowanceQuerySet:
        return self.filter(tenant_id=tenant_id, cluster=pool.cluster, resource=pool.resource)


class Allowance(models.Model):
    """How much of a pool a tenant may hold: `base` lastingly, `granted` by requests that are active now. `held` is the
    sum of its holds. It may be above the limit after a grant has ended: then nothing more is let in."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    cluster = models.CharField(max_length=40)
    resource = models.CharField(max_length=120)
    base = models.PositiveBigIntegerField(default=0)
    granted = models.PositiveBigIntegerField(default=0)
    held = models.PositiveBigIntegerField(default=0)

    objects = AllowanceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "cluster", "resource"], name="allowance_once")]

    @property
    def pool(self) -> Pool:
        return Pool(self.cluster, self.resource)

    @property
    def limit(self) -> int:
        return self.base + self.granted


class Hold(models.Model):
    """What one piece of live work keeps for itself, known by a subject such as `job:01J9…`."""

    allowance = models.ForeignKey(Allowance, on_delete=models.PROTECT, related_name="+", db_index=False)
    subject = models.CharField(max_length=80)
    amount = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject", "allowance"], name="hold_once")]
        indexes = [models.Index(fields=["allowance"], name="hold_allowance")]


class LedgerEntry(models.Model):
    """What one pod has used, from its start to its end. `key` is the pod's uid: it is booked once."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    cluster = models.CharField(max_length=40)
    resource = models.CharField(max_length=120)
    subject = models.CharField(max_length=80)
    key = models.CharField(max_length=64)
    amount = models.PositiveBigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    seconds = models.PositiveBigIntegerField()
    """Accelerator-seconds: `amount` times the whole seconds between start and end."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject", "key"], name="ledger_once"),
            models.CheckConstraint(condition=Q(ended_at__gte=F("started_at")), name="ledger_forward"),
        ]
        indexes = [models.Index(fields=["tenant", "ended_at"], name="ledger_tenant")]


class QuotaRequestQuerySet(TenantOwnedQuerySet["QuotaRequest"]):
    view_permission = Permission.QUOTA_VIEW


class QuotaRequest(models.Model):
    """More of one or several pools for a time. Only `moves.move` writes `state`; `due_at` says when time alone changes
    it: at the begin of what is approved, at the end of everything else that has not ended. With a `key`, the same press
    of a button makes one request."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    asker = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    reason = models.TextField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    offered_starts_at = models.DateTimeField(null=True)
    offered_ends_at = models.DateTimeField(null=True)
    offered_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=16, choices=[(s.value, s.value) for s in State])
    team_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    platform_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    key = models.CharField(max_length=64, blank=True)
    due_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    moved_at = models.DateTimeField(db_default=Now())

    objects = QuotaRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="quotarequest_forward"),
            models.UniqueConstraint(fields=["asker", "key"], condition=~Q(key=""), name="quotarequest_key"),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="quotarequest_tenant"),
            models.Index(fields=["state", "-id"], name="quotarequest_state"),
            models.Index(fields=["due_at"], name="quotarequest_due", condition=Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"QR-{self.pk}"

    @property
    def standing(self) -> State:
        return State(self.state)

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this request."""
        return f"quotarequest.{self.pk}"


class RequestItem(models.Model):
    """How much more of one pool is asked for, and how much was offered instead."""

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="items")
    allowance = models.ForeignKey(Allowance, on_delete=models.PROTECT, related_name="+")
    amount = models.PositiveBigIntegerField()
    offered = models.PositiveBigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["request", "allowance"], name="requestitem_once")]
        ordering = ["allowance_id"]


class RequestEvent(models.Model):
    """The history of a request: each move and each comment. `actor` is null where time itself moved it."""

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=16)
    actor = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    text = models.TextField(blank=True)
    params = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
