"""Points from TensorBoard event files that a job has written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.jobs.domain import eventfiles
from apps.jobs.models import Job
from apps.jobs.services.control import require_control
from apps.jobs.services.pushing import NoAttempt
from apps.streams import services as streams

EVENTS_READ = audit.action(
    "job.read-events",
    _("{actor} gave the job {name} a TensorBoard event file: {points} points of attempt {attempt}"),
    name=_("Give a job an event file"),
)
LATEST = 4102444800.0
"""The year 2100: a time behind it is none."""


@dataclass(frozen=True)
class FileRead:
    """How many points were new and how many known, of which series. `cut`: the file did not end with a whole record."""

    stored: int
    known: int
    series: list[str]
    cut: bool
    left_out: int


@audit.use_case(EVENTS_READ)
def read_events(actor: Actor, *, job: Job, data: bytes, attempt: int | None = None) -> FileRead:
    """Keep a file's scalars beside what the log says, which goes before; also when the job has ended. The same file
    again, grown meanwhile, adds what is new. Raises Denied, NoAttempt, NoEventFile."""
    require_control(actor, job)
    attempt = job.attempt if attempt is None else attempt
    if not 1 <= attempt <= job.attempt:
        raise NoAttempt
    found, now = eventfiles.read(data), timezone.now()
    readings = [
        (series, one.step, one.value, _moment(one.at) or now)
        for one in found.scalars
        if one.step >= 0 and (series := eventfiles.series_of(one.tag))
    ]
    stored = streams.record_points(job.topic, attempt, readings, origin=streams.Origin.TENSORBOARD)
    if stored:
        audit.record(
            EVENTS_READ, actor, job.audit_id, tenant_id=job.tenant_id, name=job.name, attempt=attempt, points=stored
        )
        streams.hint(job.topic)
    names = list(dict.fromkeys(name for name, _step, _value, _at in readings))
    return FileRead(stored, len(readings) - stored, names, found.cut, found.left_out)


def _moment(seconds: float) -> datetime | None:
    good = math.isfinite(seconds) and 0 < seconds < LATEST
    return datetime.fromtimestamp(seconds, UTC) if good else None
