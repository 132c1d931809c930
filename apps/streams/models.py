"""What outlives the buffers: the points of training curves, and where the kept log lies."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Point(models.Model):
    """One reading of one series at one step of one attempt. A step told twice keeps its first value, so that a log read
    again after a crash changes nothing. NaN and infinities are kept: a curve that broke must show it.

    `origin` is where it comes from (`domain.origins.Origin`). Any other gives way to one read from a log: what a job
    says of itself by another way must not hide what it printed."""

    topic = models.CharField(max_length=80)
    series = models.CharField(max_length=40)
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    value = models.FloatField()
    at = models.DateTimeField()
    origin = models.SmallIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "series", "attempt", "step"], name="point_once")]


class Curve(models.Model):
    """What is known of one series of one attempt without reading its points. Written in the transaction that writes
    them, so that a reader who kept `points` points and sees the same number here has them all. `replaced` counts values
    that changed; `origins` has a bit for each origin that some of its points had when they came."""

    topic = models.CharField(max_length=80)
    series = models.CharField(max_length=40)
    attempt = models.PositiveIntegerField()
    points = models.BigIntegerField()
    replaced = models.BigIntegerField(default=0)
    origins = models.SmallIntegerField(default=1, db_default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "series", "attempt"], name="curve_once")]


class Segment(models.Model):
    """A stretch of a topic's log in object storage, lines `first` to `last`, and what is known of it unread.

    Its bytes lie there once it is `stored`. `places` is where each source stood after the last line, as far as known;
    only a topic's newest segment has it. From `due_at` on it is read no more, and taken away.
    """

    topic = models.CharField(max_length=80)
    tenant = models.ForeignKey("accounts.Tenant", null=True, on_delete=models.PROTECT, related_name="+")
    first = models.BigIntegerField()
    last = models.BigIntegerField()
    begins = models.BigIntegerField()
    ends = models.BigIntegerField()
    """The earliest and the latest time of a line, in nanoseconds since 1970."""
    first_step = models.BigIntegerField(null=True)
    last_step = models.BigIntegerField(null=True)
    attempts = ArrayField(models.PositiveIntegerField())
    ranks = ArrayField(models.PositiveIntegerField())
    """Those of its lines; empty where a line has none: every rank may want it."""
    worst = models.SmallIntegerField()
    """The weight of the worst level."""
    digest = models.CharField(max_length=64)
    size = models.PositiveIntegerField()
    places = models.JSONField(default=dict)
    raw_size = models.PositiveIntegerField(null=True)
    """Unpacked; null for those of versions that did not keep it."""
    merge_at = models.DateTimeField(null=True)
    """When a worker looks whether small segments of its topic can be one."""
    stored = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["topic", "first"], name="segment_once", condition=Q(stored=True)),
        ]
        indexes = [
            models.Index(fields=["topic", "last"], name="segment_by_line"),
            models.Index(fields=["due_at"], name="segment_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=["merge_at"], name="segment_merge", condition=Q(merge_at__isnull=False)),
            models.Index(fields=["ends"], name="segment_by_age", condition=Q(due_at__isnull=True)),
            models.Index(fields=["created_at"], name="segment_unstored", condition=Q(stored=False)),
        ]
