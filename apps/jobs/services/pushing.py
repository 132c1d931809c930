"""Points that a job, or whoever runs it, sends by REST because its log says none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.jobs.models import Job
from apps.jobs.services.control import NotNow, require_control
from apps.streams import services as streams

POINTS_PUSHED = audit.action(
    "job.push-points", _("{actor} began to send points of attempt {attempt} of the job {name}"), name=_("Send points")
)


class NoAttempt(Exception):
    """The job has had no such attempt."""


@dataclass(frozen=True)
class Pushed:
    """One value. `at` is None for now."""

    series: str
    step: int
    value: float
    at: datetime | None = None


@audit.use_case(POINTS_PUSHED)
def push_points(actor: Actor, *, job: Job, points: Sequence[Pushed], attempt: int | None = None) -> int:
    """Keep points beside those read from the log, marked as pushed, and tell how many were new. The same once more
    changes nothing. That an attempt's points begin to come this way is recorded, not each of them.

    Raises Denied, NoAttempt, and NotNow after the job's end.
    """
    require_control(actor, job)
    if job.state.is_final:
        raise NotNow(job.state)
    attempt = job.attempt if attempt is None else attempt
    if not 1 <= attempt <= job.attempt:
        raise NoAttempt
    now = timezone.now()
    is_first = not streams.has_pushed(job.topic, attempt)
    readings = [(point.series, point.step, point.value, point.at or now) for point in points]
    stored = streams.record_points(job.topic, attempt, readings, origin=streams.Origin.PUSHED)
    if stored and is_first:
        audit.record(POINTS_PUSHED, actor, job.audit_id, tenant_id=job.tenant_id, name=job.name, attempt=attempt)
    if stored:
        streams.tell_points(job.topic, attempt, readings)
    return stored
