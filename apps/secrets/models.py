"""What is known of secrets: everything but their values."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Actor, Permission
from apps.secrets.domain import Kind


class SecretQuerySet(TenantOwnedQuerySet["Secret"]):
    view_permission = Permission.SECRET_VIEW

    def visible_to(self, actor: Actor) -> Self:
        """Secrets that can be used; one that is just being entered or destroyed is nobody's."""
        return super().visible_to(actor).live()

    def live(self) -> Self:
        return self.filter(version__gt=0, removed_at=None)


class Secret(models.Model):
    """A secret's name and keys, never a value or anything made from one.

    `version` is the one of the store that counts: 0 while the first is being written. What was written but never marked
    here is not delivered. `due_at` says when a worker must destroy what the store has: soon for one that was removed,
    later for one whose entering broke off. `entry` is the form that wrote last: a second press of its button is no
    second entry.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=40)
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in Kind])
    note = models.CharField(max_length=300, blank=True)
    keys = ArrayField(models.CharField(max_length=100), default=list)
    version = models.PositiveIntegerField(default=0)
    entry = models.UUIDField(null=True)
    created_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    changed_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)

    objects = SecretQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], condition=Q(removed_at=None), name="secret_name"),
        ]
        indexes = [models.Index(fields=["due_at"], name="secret_due", condition=Q(due_at__isnull=False))]

    def __str__(self) -> str:
        return self.name


class Loan(models.Model):
    """Secrets in the hands of one piece of work, such as "job:01J…": the accessor of the token that read them.

    The token itself is forgotten at once. `due_at` says when to renew it, or (`ended_at`) to revoke it.
    """

    subject = models.CharField(max_length=80)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+")
    versions = models.JSONField(default=dict)
    """Version by name, as they were read."""
    accessor = models.CharField(max_length=120, blank=True)
    told = models.BooleanField(default=False)
    """Whether the audit log has it: going in may take several tries, each with a loan of its own."""
    expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["subject"], name="loan_subject"),
            models.Index(fields=["due_at"], name="loan_due", condition=Q(due_at__isnull=False)),
        ]
