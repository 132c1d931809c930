"""What outlives the buffers: the points of training curves."""

from __future__ import annotations

from django.db import models


class Point(models.Model):
    """One reading of one series at one step of one attempt. A step told twice keeps its first value, so that a log read
    again after a crash changes nothing. NaN and infinities are kept: a curve that broke must show it.

    A point that was pushed gives way to one read from a log: what a job says of itself by another way must not hide
    what it printed."""

    topic = models.CharField(max_length=80)
    series = models.CharField(max_length=40)
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    value = models.FloatField()
    at = models.DateTimeField()
    pushed = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "series", "attempt", "step"], name="point_once")]


class Curve(models.Model):
    """What is known of one series of one attempt without reading its points. Written in the transaction that writes
    them, so that a reader who kept `points` points and sees the same number here has them all. `replaced` counts values
    that changed; `pushed`: some came another way than by a log."""

    topic = models.CharField(max_length=80)
    series = models.CharField(max_length=40)
    attempt = models.PositiveIntegerField()
    points = models.BigIntegerField()
    replaced = models.BigIntegerField(default=0)
    pushed = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "series", "attempt"], name="curve_once")]
