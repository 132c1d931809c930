"""The clusters, and what the watch process last saw of them."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models.functions import Now

from apps.accounts.types import Actor, Permission


class ClusterQuerySet(models.QuerySet["Cluster"]):
    """Clusters belong to the platform, not to a tenant: whoever may see one may see all."""

    def visible_to(self, actor: Actor) -> Self:
        return self.all() if actor.may(Permission.CLUSTER_VIEW) else self.none()

    def for_system(self) -> Self:
        return self.all()


class Cluster(models.Model):
    """A cluster's address and what was seen of it. Its credential lies in the secrets server at `credential_path`.

    Only the watch process writes the four columns of what was seen; `unreachable_since` is null while it answers.
    """

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    server = models.CharField(max_length=255)
    ca_pem = models.TextField(blank=True)
    credential_path = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    version = models.CharField(max_length=40, blank=True)
    seen_at = models.DateTimeField(null=True)
    unreachable_since = models.DateTimeField(null=True)
    unreachable_reason = models.TextField(blank=True)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this cluster."""
        return f"cluster.{self.pk}"


class ClusterNode(models.Model):
    """A node as last seen. `total` and `used` count accelerators of the extended resource `resource`; nodes without any
    have none. `schedulable` is false for cordoned nodes."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=253)
    product = models.CharField(max_length=80, blank=True)
    resource = models.CharField(max_length=120, blank=True)
    total = models.PositiveIntegerField(default=0)
    used = models.PositiveIntegerField(default=0)
    ready = models.BooleanField(default=False)
    schedulable = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="node_once")]
        ordering = ["name"]


class WatchLease(models.Model):
    """Who watches. `epoch` grows with each change of hands, so that writes of a former holder can be told apart."""

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.CharField(max_length=80)
    until = models.DateTimeField()
    epoch = models.PositiveBigIntegerField(default=1)
