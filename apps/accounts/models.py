"""People, the tenants they belong to, and the tokens they made."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.fields import EncryptedTextField
from apps.accounts.types import Actor


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(pk=username or "")


class User(AbstractBaseUser):
    """A person, identified by issuer and subject of their provider, never by name or e-mail."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    iss = models.CharField(max_length=255)
    sub = models.CharField(max_length=255)
    name = models.CharField(max_length=200)
    email = models.EmailField(blank=True)
    is_active = models.BooleanField(default=True)
    platform_roles = ArrayField(models.CharField(max_length=32), default=list, blank=True)
    language = models.CharField(max_length=10, blank=True)
    theme = models.CharField(max_length=5, blank=True)
    timezone = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    confirmed_at = models.DateTimeField(db_default=Now())
    """When the provider last said that this person exists and which groups they are in."""
    password = None  # type: ignore[assignment]  # nobody signs in here but through the provider

    objects = UserManager()
    USERNAME_FIELD = "id"

    class Meta:
        constraints = [models.UniqueConstraint(fields=["iss", "sub"], name="user_iss_sub")]

    def __str__(self) -> str:
        return self.name

    @property
    def audit_id(self) -> str:
        return f"user:{self.pk}"

    members: Mapping[int, Role] | None = None
    """The role in each tenant, where it was read together with the person."""

    def actor(self, *, read_only: bool = False, token_id: int | None = None) -> Actor:
        """Who this person is right now: one query for the memberships, where they were not read with the person."""
        tenants = self.members
        if tenants is None:
            tenants = {m.tenant_id: Role(m.role) for m in Membership.objects.filter(user=self)}
        platform = frozenset(Role(role) for role in self.platform_roles)
        return Actor(self.audit_id, self.name, tenants, platform, read_only, str(self.pk), token_id)


class Tenant(models.Model):
    """A team. `slug` names its groups at the provider and its namespaces; it never changes."""

    slug = models.SlugField(max_length=30, unique=True)
    name = models.CharField(max_length=80)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """What a person is in a tenant, as the provider's groups said at the last look."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=32, choices=[(r.value, r.value) for r in Role if not r.is_platform])

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "tenant"], name="membership_once")]


class ApiToken(models.Model):
    """A token for scripts. Only its SHA-256 is kept; `prefix` lets a person recognise it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    read_only = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    @property
    def has_ended(self) -> bool:
        return self.expires_at <= timezone.now()


class ProviderSession(models.Model):
    """What the provider gave for one browser session. Kept in a row of its own, never in the session dictionary:
    a parallel request would save its old copy over a new refresh token. Both tokens are encrypted."""

    session_key = models.CharField(max_length=40, unique=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    iss = models.CharField(max_length=255)
    sub = models.CharField(max_length=255)
    sid = models.CharField(max_length=255, blank=True)
    refresh_token = EncryptedTextField(blank=True)
    id_token = EncryptedTextField(blank=True)
    agent = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    used_at = models.DateTimeField(db_default=Now())
    """The last thing a person did here; pages that refresh themselves do not count."""
    checked_at = models.DateTimeField()
    lease_until = models.DateTimeField()
    failing_since = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["iss", "sid"], name="psession_sid"),
            models.Index(fields=["iss", "sub"], name="psession_sub"),
        ]


class LogoutToken(models.Model):
    """The ids of back-channel logout tokens already used."""

    jti = models.CharField(max_length=255, unique=True)
    at = models.DateTimeField(db_default=Now())
