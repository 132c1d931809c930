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


class ClusterNodeQuerySet(models.QuerySet["ClusterNode"]):
    """Nodes belong to the platform as clusters do."""

    def visible_to(self, actor: Actor) -> Self:
        return self.all() if actor.may(Permission.CLUSTER_VIEW) else self.none()

    def for_system(self) -> Self:
        return self.all()


class ClusterNode(models.Model):
    """A node as last seen, written by the watch process only. `total` and `used` count accelerators of the extended
    resource `resource`; nodes without any have none. `schedulable` is false for cordoned nodes. `problem` is one of
    domain.nodes.Problem; `facts` and `held` are as domain.nodes.see() makes them, and `digest` stands for all of it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=253)
    product = models.CharField(max_length=80, blank=True)
    resource = models.CharField(max_length=120, blank=True)
    total = models.PositiveIntegerField(default=0)
    used = models.PositiveIntegerField(default=0)
    ready = models.BooleanField(default=False)
    schedulable = models.BooleanField(default=True)
    tainted = models.BooleanField(default=False)
    accelerator = models.CharField(max_length=40, blank=True)
    physical = models.PositiveIntegerField(default=0)
    device_memory = models.PositiveBigIntegerField(null=True)
    pool = models.CharField(max_length=63, blank=True)
    fabric = models.CharField(max_length=253, blank=True)
    free_cpu = models.PositiveBigIntegerField(null=True)
    free_memory = models.PositiveBigIntegerField(null=True)
    free_pods = models.PositiveIntegerField(null=True)
    problem = models.CharField(max_length=20, blank=True)
    facts = models.JSONField(default=dict)
    held = models.JSONField(default=list)
    digest = models.CharField(max_length=32, blank=True)
    changed_at = models.DateTimeField(db_default=Now())

    objects = ClusterNodeQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="node_once")]
        ordering = ["name"]


class AcceleratorEntry(models.Model):
    """What operators know of an accelerator beyond what the release ships; `body` as domain.accelerators.read() takes
    it. An entry with a shipped one's slug stands in its place."""

    slug = models.CharField(primary_key=True, max_length=40)
    body = models.JSONField()
    changed_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+", null=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["slug"]


class WatchLease(models.Model):
    """Who watches. `epoch` grows with each change of hands, so that writes of a former holder can be told apart."""

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.CharField(max_length=80)
    until = models.DateTimeField()
    epoch = models.PositiveBigIntegerField(default=1)
