"""Jobs, what was seen of them, and the drafts they come from."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from ulid import ULID

from apps.accounts.scoping import TenantOwnedQuerySet
from apps.accounts.types import Actor, Permission
from apps.jobs.domain.boards import OVER, Stage
from apps.jobs.domain.harvest import Harvest
from apps.jobs.domain.losswatch import Finding, State
from apps.jobs.domain.phases import FINAL, Phase, Wanted
from apps.jobs.domain.spec import JobSpec, read_spec


def new_job_id() -> str:
    """26 characters, sorted by time; the job's objects in the cluster are named after it."""
    return str(ULID())


class JobQuerySet(TenantOwnedQuerySet["Job"]):
    view_permission = Permission.JOB_VIEW

    def unfinished(self) -> Self:
        return self.exclude(phase__in=FINAL)


class Job(models.Model):
    """One training job from submit to end. The row is the queue: `due_at` says when to look at it again, `lease_until`
    that somebody does. Only `moves.move` writes `phase`."""

    id = models.CharField(primary_key=True, max_length=26, default=new_job_id, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    owner = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    placement = models.ForeignKey("tenants.Placement", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    document = models.JSONField()
    phase = models.CharField(max_length=12, default=Phase.SUBMITTED, choices=[(p.value, p.value) for p in Phase])
    wanted = models.CharField(max_length=8, default=Wanted.RUN, choices=[(w.value, w.value) for w in Wanted])
    wanted_by = models.CharField(max_length=200, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    object_uid = models.CharField(max_length=64, blank=True)
    attempt = models.PositiveIntegerField(default=1)
    gpus = models.PositiveIntegerField()
    cloned_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    running_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True, db_default=Now())
    lease_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)

    objects = JobQuerySet.as_manager()

    _read: tuple[Any, JobSpec] | None = None

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "-id"], name="job_tenant"),
            models.Index(fields=["due_at"], name="job_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=["tenant", "phase"], name="job_unfinished", condition=~Q(phase__in=sorted(FINAL))),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> Phase:
        return Phase(self.phase)

    @property
    def topic(self) -> str:
        """The name under which open pages hear of this job and its log lines are kept."""
        return f"job.{self.pk}"

    @property
    def silent_since(self) -> datetime | None:
        """Since when nothing is known of it, because its cluster is silent. Of one that has not gone in yet, all is."""
        known = self.ended_at or self.state is Phase.SUBMITTED
        return None if known else self.placement.cluster.unreachable_since

    @property
    def audit_id(self) -> str:
        return f"job:{self.pk}"

    @property
    def subject(self) -> str:
        """What holds its part of the tenant's quota."""
        return f"job:{self.pk}"

    @property
    def spec(self) -> JobSpec:
        """Read once for each document."""
        if self._read is None or self._read[0] is not self.document:
            self._read = self.document, read_spec(self.document)
        return self._read[1]


class JobPhase(models.Model):
    """The history of a job: one row for each move."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    phase = models.CharField(max_length=12)
    attempt = models.PositiveIntegerField(default=1)
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="jobphase_job")]


class JobRank(models.Model):
    """One pod of a job as last seen; the rows of past attempts stay."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    pod_uid = models.CharField(max_length=64, unique=True)
    pod_name = models.CharField(max_length=63)
    attempt = models.PositiveIntegerField()
    rank = models.PositiveIntegerField()
    node = models.CharField(max_length=253, blank=True)
    phase = models.CharField(max_length=20)
    waiting = models.CharField(max_length=80, blank=True)
    message = models.CharField(max_length=500, blank=True)
    exit_code = models.IntegerField(null=True)
    end_reason = models.CharField(max_length=80, blank=True, db_default="")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["job", "attempt", "rank"], name="jobrank_job")]


class JobEvent(models.Model):
    """What the cluster said of a pod of a job, or of the job, as it says it itself: `count` times between `first_at`
    and `at`. `uid` is the event's own; `code` is one of `domain.podevents`."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    uid = models.CharField(max_length=100)
    code = models.CharField(max_length=20)
    reason = models.CharField(max_length=80)
    message = models.CharField(max_length=300, blank=True)
    count = models.PositiveIntegerField()
    first_at = models.DateTimeField()
    at = models.DateTimeField()
    pod_name = models.CharField(max_length=253, blank=True)
    attempt = models.PositiveIntegerField(null=True)
    rank = models.PositiveIntegerField(null=True)
    node = models.CharField(max_length=253, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "uid"], name="jobevent_once")]
        indexes = [models.Index(fields=["job", "at"], name="jobevent_job")]


class LossWatch(models.Model):
    """What the loss watch makes of a job so far; there is a row once the job's log has told a figure.

    `settings` are the document's fields where somebody changed them since the job was submitted. `finding` is the
    verdict, or the newest doubt; `alerts` is what is no divergence. Points of `from_attempt` up to `from_step`, and of
    attempts before, do not count: somebody said so. `done` says what was done when it tripped, in order:
    `[{"act", "phase": … where it could not be done}]`. With `quarantine`, checkpoints after `good_step` (all of them,
    if that is null) are not offered to anybody.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="loss_watch")
    settings = models.JSONField(default=dict)
    state = models.CharField(max_length=8, default=State.OK, choices=[(s.value, s.value) for s in State])
    since = models.DateTimeField(null=True)
    finding = models.JSONField(default=dict)
    alerts = models.JSONField(default=list)
    snapshot = models.JSONField(default=dict)
    from_attempt = models.PositiveIntegerField(default=0)
    from_step = models.BigIntegerField(default=-1)
    marked = models.BooleanField(default=False)
    quarantine = models.BooleanField(default=False)
    good_step = models.BigIntegerField(null=True)
    done = models.JSONField(default=list)

    @property
    def verdict(self) -> Finding | None:
        return Finding.load(self.finding) if self.state == State.TRIPPED else None

    def is_good(self, step: int) -> bool:
        """Whether the checkpoint of a step may be gone on from."""
        return not self.quarantine or (self.good_step is not None and step <= self.good_step)


class EventReader(models.Model):
    """Reading the TensorBoard event files in a job's volume. The row is the queue, as the job's is; there is one once
    the job has run and may have written some. Only `services.harvesting` writes `phase`.

    `files` is how far each was read: `{path: {"next", "attempt", "points"}}`; `next` is a place in bytes.
    `folders` says from which folder a series of an attempt comes: `{"<attempt>:<series>": folder}`. `next_at` is when
    to look, None where something has to happen first. `empty` counts looks that found no file, `broken` pods that ended
    without a word. Only the hash of the pod's token is kept.
    """

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="event_reader")
    phase = models.CharField(max_length=8, default=Harvest.WAITING, choices=[(h.value, h.value) for h in Harvest])
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    files = models.JSONField(default=dict)
    folders = models.JSONField(default=dict)
    points = models.BigIntegerField(default=0)
    left_out = models.BigIntegerField(default=0)
    empty = models.PositiveIntegerField(default=0)
    broken = models.PositiveIntegerField(default=0)
    looked_at = models.DateTimeField(null=True)
    next_at = models.DateTimeField(null=True)
    token_digest = models.CharField(max_length=64, blank=True)
    token_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="event_reader_due", condition=Q(due_at__isnull=False))]

    @property
    def state(self) -> Harvest:
        return Harvest(self.phase)


class Board(models.Model):
    """A TensorBoard that somebody opened for a job; at most one of a job has not ended. The row is the queue. Only
    `services.boards` writes `phase`. `ip` is its pod's while it is ready; `until` when it ends at the latest."""

    id = models.CharField(primary_key=True, max_length=26, default=new_job_id, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    asked_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    phase = models.CharField(max_length=8, default=Stage.ASKED, choices=[(s.value, s.value) for s in Stage])
    reason = models.CharField(max_length=40, blank=True)
    reason_params = models.JSONField(default=dict)
    ip = models.CharField(max_length=45, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    ready_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True, db_default=Now())
    lease_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["job", "-id"], name="board_job"),
            models.Index(fields=["due_at"], name="board_due", condition=Q(due_at__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job"], name="board_one_alive", condition=~Q(phase__in=sorted(OVER)))
        ]

    @property
    def stage(self) -> Stage:
        return Stage(self.phase)


class DraftQuerySet(TenantOwnedQuerySet["Draft"]):
    view_permission = Permission.JOB_SUBMIT

    def visible_to(self, actor: Actor) -> Self:
        """A draft is its owner's alone, while they may still submit in its tenant."""
        return super().visible_to(actor).filter(owner_id=actor.user_pk or None)


class Draft(models.Model):
    """A wizard's document before it is submitted: exactly what was typed, valid or not. Lives until it is discarded.

    `dry_run` is the API server's last answer: `{"state": "asked|accepted|refused|unavailable", "version", "at",
    "seconds", "objects": [...], "warnings": [...], "text"}`; it counts only for the `version` it names.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="+")
    job_id = models.CharField(max_length=26, default=new_job_id, unique=True, editable=False)
    document = models.JSONField(default=dict)
    version = models.PositiveIntegerField(default=1)
    dry_run = models.JSONField(default=dict)
    cloned_from = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    submitted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    objects = DraftQuerySet.as_manager()

    @property
    def topic(self) -> str:
        return f"draft.{self.pk}"

    def document_or(self, key: str, default: Any) -> Any:
        """What was typed for a field, or its default."""
        return self.document.get(key, default)


class LogPattern(models.Model):
    """A reader of training logs that an operator wrote (`domain.traininglog.readers`)."""

    name = models.CharField(max_length=60, unique=True)
    pattern = models.CharField(max_length=1000)
    is_on = models.BooleanField(default=True)
    changed_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]


class IdempotencyKey(models.Model):
    """The first answer to a request that named a key; the same request again gets the same job."""

    owner = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="idempotency_once")]
