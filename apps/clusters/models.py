"""The clusters, and what the watch process last saw of them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.types import Actor, Permission
from apps.clusters.domain.checks import WARN_DAYS, Check, Operator, days_left, is_rejected, passes
from apps.clusters.domain.profile import Profile
from apps.clusters.domain.profile import read as read_profile


class ClusterQuerySet(models.QuerySet["Cluster"]):
    """Clusters belong to the platform, not to a tenant: whoever may see one may see all that stand. One that is not
    ready yet is seen by those who are to make it so."""

    def visible_to(self, actor: Actor) -> Self:
        if not actor.may(Permission.CLUSTER_VIEW):
            return self.none()
        standing = self.standing()
        return standing if actor.may(Permission.CLUSTER_REGISTER) else standing.exclude(state=Cluster.State.NEW)

    def for_system(self) -> Self:
        return self.all()

    def standing(self) -> Self:
        """Those that are neither being removed nor gone."""
        return self.filter(state__in=(Cluster.State.NEW, Cluster.State.READY))

    def used(self) -> Self:
        """Those that may be spoken to: their credential was accepted."""
        return self.filter(state=Cluster.State.READY)

    def open(self) -> Self:
        """Those in which something new may begin."""
        return self.used().filter(maintenance_since=None)


class Cluster(models.Model):
    """A cluster's address and what was seen of it. Its credential lies in the secrets server at `credential_path`.

    Only the watch process writes the four columns of what was seen; `unreachable_since` is null while it answers.
    `uid` tells one cluster from another at the same address. `checks` and `operators` are what was found with the
    credential in use (`Check.to_row`, `Operator.to_row`); `account` and `expires_at` what that says of itself.
    `warned_days` is the nearest end that operators were told of, 0 also where the cluster rejects the credential.
    `profile` is what they say of it (`Profile.to_row`). `due_at` is when a worker looks at it next.
    At `compared_at` everything was listed again beside the watches: `compared` objects, of which `differed` were other
    than the watches had told, and `diverged` since the cluster was entered.
    """

    class State(models.TextChoices):
        NEW = "new"
        READY = "ready"
        LEAVING = "leaving"
        GONE = "gone"

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
    state = models.CharField(max_length=8, choices=State, default=State.READY, db_default=State.READY)
    uid = models.CharField(max_length=60, blank=True, db_default="")
    checks = models.JSONField(default=list, db_default=[])
    operators = models.JSONField(default=list, db_default=[])
    checked_at = models.DateTimeField(null=True)
    account = models.CharField(max_length=253, blank=True, db_default="")
    expires_at = models.DateTimeField(null=True)
    warned_days = models.SmallIntegerField(null=True)
    maintenance_since = models.DateTimeField(null=True)
    maintenance_until = models.DateTimeField(null=True)
    maintenance_reason = models.CharField(max_length=300, blank=True, db_default="")
    profile = models.JSONField(default=dict, db_default={})
    compared_at = models.DateTimeField(null=True)
    compared = models.PositiveIntegerField(default=0, db_default=0)
    differed = models.PositiveIntegerField(default=0, db_default=0)
    diverged = models.PositiveIntegerField(default=0, db_default=0)
    due_at = models.DateTimeField(null=True)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        indexes = [models.Index(fields=["due_at"], name="cluster_due", condition=Q(due_at__isnull=False))]

    def __str__(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this cluster."""
        return f"cluster.{self.pk}"

    @property
    def is_ready(self) -> bool:
        return self.state == self.State.READY

    @property
    def is_open(self) -> bool:
        """Whether something new may begin here."""
        return self.is_ready and self.maintenance_since is None

    @property
    def found(self) -> list[Check]:
        """What was found with the credential in use."""
        return [Check.from_row(row) for row in self.checks]

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found that the portal cannot do without; true while nothing was looked at."""
        return not self.checks or passes(self.found)

    @property
    def is_rejected(self) -> bool:
        """Whether the cluster did not take the credential in use when it was last looked at."""
        return is_rejected(self.found)

    @property
    def operators_found(self) -> list[Operator]:
        return [Operator(**row) for row in self.operators]

    @property
    def described(self) -> Profile:
        return read_profile(self.profile)

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def days_left(self) -> int | None:
        """Whole days until the credential is over; None where it does not say."""
        return None if self.expires_at is None else days_left(self.expires_at, timezone.now())

    @property
    def is_expiring(self) -> bool:
        """Whether the end of the credential is near enough to warn of."""
        return self.expires_at is not None and self.expires_at <= timezone.now() + timedelta(days=WARN_DAYS[0])


class ClusterEntry(models.Model):
    """A credential that somebody entered, with the address it is for: the first one, or one to replace another.

    Its token lies in the secrets server at `path`, where the web process put it, until a worker has moved it to the
    cluster's own path or destroyed it. `once` is the form's own id, so that a second press is no second entry.
    `due_at` is when a worker has something to do: to check, or to destroy the token; null once that is done.
    """

    class State(models.TextChoices):
        STORING = "storing"
        CHECKING = "checking"
        PASSED = "passed"
        FAILED = "failed"
        DROPPED = "dropped"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="entries")
    once = models.UUIDField(unique=True, default=uuid.uuid4)
    server = models.CharField(max_length=255)
    ca_pem = models.TextField(blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.STORING)
    checks = models.JSONField(default=list)
    entered_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+", null=True)
    entered_at = models.DateTimeField(db_default=Now())
    checked_at = models.DateTimeField(null=True)
    due_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["due_at"], name="cluster_entry_due", condition=Q(due_at__isnull=False))]

    @property
    def path(self) -> str:
        return f"entered/{self.once}"

    @property
    def found(self) -> list[Check]:
        return [Check.from_row(row) for row in self.checks]

    @property
    def is_busy(self) -> bool:
        return self.state in (self.State.STORING, self.State.CHECKING)

    @property
    def may_check_again(self) -> bool:
        """Whether its token is still kept, so that what failed can be looked at again."""
        return self.state == self.State.FAILED and self.due_at is not None


class ClusterSource(models.Model):
    """Another system that tells of a cluster, as somebody entered it: its Prometheus, its Loki.

    Its token, if it has one, lies in the secrets server at `path` for as long as the row is there. What is in use is
    ready; what was entered to replace it is checked first. `once` is the form's own id. `due_at` is when a worker has
    something to do: to check, or to clear the row away. `error` is its last refusal or silence, "" while it answers;
    `read_at` when it was last read. `org` is whose data is asked for, where a Loki keeps several tenants' apart.
    """

    class Kind(models.TextChoices):
        PROMETHEUS = "prometheus"
        LOKI = "loki"

    class State(models.TextChoices):
        STORING = "storing"
        CHECKING = "checking"
        READY = "ready"
        FAILED = "failed"
        DROPPED = "dropped"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="sources")
    kind = models.CharField(max_length=12, choices=Kind)
    once = models.UUIDField(unique=True, default=uuid.uuid4)
    url = models.CharField(max_length=255)
    ca_pem = models.TextField(blank=True)
    has_token = models.BooleanField(default=False)
    org = models.CharField(max_length=150, blank=True, db_default="")
    state = models.CharField(max_length=8, choices=State, default=State.STORING)
    version = models.CharField(max_length=40, blank=True)
    error = models.CharField(max_length=300, blank=True)
    entered_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+", null=True)
    entered_at = models.DateTimeField(db_default=Now())
    checked_at = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    due_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "kind"], name="source_once", condition=Q(state="ready"))
        ]
        indexes = [models.Index(fields=["due_at"], name="cluster_source_due", condition=Q(due_at__isnull=False))]

    @property
    def path(self) -> str:
        return f"entered/{self.once}"

    @property
    def is_busy(self) -> bool:
        return self.state in (self.State.STORING, self.State.CHECKING)


class PodDevices(models.Model):
    """The accelerators of a pod as an exporter last told of them, at `at`; they stay when the pod is gone. `devices`
    are `domain.exporters.Device.to_row`, with `fault_before`: the code that a device told when it was first seen."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    topic = models.CharField(max_length=80)
    pod_uid = models.CharField(max_length=64)
    pod_name = models.CharField(max_length=253)
    rank = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    at = models.DateTimeField()
    devices = models.JSONField(default=list)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "pod_uid"], name="pod_devices_once")]


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

    def __str__(self) -> str:
        return self.name

    @property
    def free_now(self) -> int:
        """Accelerators that new work could have here."""
        usable = self.ready and self.schedulable and not self.tainted
        return max(0, self.total - self.used) if usable else 0


class ClusterQueue(models.Model):
    """A Volcano Queue as last seen; `facts` are those of domain.queues.QueueSeen but its name."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=253)
    facts = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="queue_once")]


class NodeEvent(models.Model):
    """What the cluster said of a node, kept for a week; `key` stands for its words, so that it is kept once."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    node = models.CharField(max_length=253)
    key = models.BigIntegerField()
    reason = models.CharField(max_length=80)
    message = models.CharField(max_length=300)
    is_warning = models.BooleanField(default=False)
    count = models.PositiveIntegerField(default=1)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "node", "key"], name="node_event_once")]


class ClusterSample(models.Model):
    """How a cluster's accelerators stood at a moment, kept for eight days; none while it is silent."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(db_default=Now())
    total = models.PositiveIntegerField()
    used = models.PositiveIntegerField()
    free = models.PositiveIntegerField()
    in_pieces = models.PositiveIntegerField()

    class Meta:
        indexes = [models.Index(fields=["cluster", "at"], name="cluster_sample_at")]


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
