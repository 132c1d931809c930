"""What outlives the buffers: the points of training curves."""

from __future__ import annotations

from django.db import models


class Point(models.Model):
    """One reading of one series at one step of one attempt. A step told twice keeps its first value, so that a log read
    again after a crash changes nothing. NaN and infinities are kept: a curve that broke must show it."""

    topic = models.CharField(max_length=80)
    series = models.CharField(max_length=40)
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    value = models.FloatField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "series", "attempt", "step"], name="point_once")]
