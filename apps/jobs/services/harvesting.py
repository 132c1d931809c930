"""What is noted of reading a job's event files: what its pod tells, and when to look again.

The pod reads the volume and tells scalars piece by piece; each says from which place of which file on. A piece that was
told before changes nothing, so neither a lost answer nor a pod that is made anew doubles a point.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Min
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.jobs.domain.harvest import (
    BUSY,
    ENDED,
    IDLE,
    MOST_FILES,
    MOST_POINTS,
    Folders,
    Harvest,
    attempt_of,
    is_enough,
    pause,
    pause_broken,
)
from apps.jobs.models import EventReader, Job, JobRank
from apps.streams import services as streams

TASK = "jobs.reconcile_events"
EVENTS_FOUND = audit.action(
    "job.events-found",
    _("Event files of attempt {attempt} of the job {name} were found in its volume and are read"),
    name=_("Read a job's event files"),
)
READER = Actor.system("eventreader")
TOKEN = timedelta(hours=1)
"""A token lives so long after its pod was heard of."""
LATEST = 4102444800.0
"""The year 2100: a time behind it is none."""
RETOLD = timedelta(minutes=1)
"""An open page hears of looks that brought nothing this often."""


class Elsewhere(Exception):
    """The file was read up to another place; `next` says which."""

    def __init__(self, next_: int) -> None:
        super().__init__(next_)
        self.next = next_


@dataclass(frozen=True)
class Told:
    """A piece of a file: what stands from `start` to `next`. `begun` as in `eventfiles.Piece`; `scalars` are tag, step,
    value, seconds since 1970."""

    path: str
    start: int
    next: int
    begun: float | None
    scalars: Sequence[tuple[str, int, float, float]]


@dataclass(frozen=True)
class Look:
    """What a pod says after a look: how many files there are, how many of them end with what is no whole record, how
    many scalars were new. `last`: the job had ended before this look began."""

    files: int
    waiting: int
    scalars: int
    last: bool


# --- the pod's side ---------------------------------------------------------------------------------------------------


def hashed(clear: str) -> str:
    return hashlib.sha256(clear.encode("utf-8", "replace")).hexdigest()


def reader_of(job_id: str, clear: str) -> EventReader | None:
    """The reading whose pod holds this token; None when it is another's, unknown or over."""
    rows = EventReader.objects.filter(pk=job_id, token_digest=hashed(clear), token_until__gt=Now())
    return rows.exclude(phase__in=ENDED).select_related("job").first()


def places(reader: EventReader) -> dict[str, int]:
    """How far each file was read."""
    return {path: int(known["next"]) for path, known in reader.files.items()}


@transaction.atomic
def take(reader: EventReader, told: Told) -> int:
    """Keep a piece and say where the next one begins. Raises Elsewhere."""
    row = EventReader.objects.select_for_update(of=("self",)).select_related("job").get(pk=reader.pk)
    known = row.files.get(told.path)
    stands = int(known["next"]) if known else 0
    if told.start != stands:
        raise Elsewhere(stands)
    if known is None and len(row.files) >= MOST_FILES:
        row.left_out += len(told.scalars)
        row.save(update_fields=["left_out"])
        return told.next
    file = known or {"attempt": attempt_of(told.begun, _starts(row.job), row.job.attempt), "points": 0}
    stored = _keep(row, file["attempt"], told)
    row.files[told.path] = {**file, "next": told.next, "points": file["points"] + stored}
    row.points += stored
    row.token_until = timezone.now() + TOKEN
    row.save(update_fields=["files", "folders", "points", "left_out", "token_until"])
    if known is None:
        _note_found(row.job, file["attempt"], row.files)
    if stored:
        streams.hint(row.job.topic)
    return told.next


@transaction.atomic
def note_look(reader: EventReader, look: Look) -> bool:
    """Note that the pod has looked; whether that is enough of it."""
    row = EventReader.objects.select_for_update(of=("self",)).select_related("job").get(pk=reader.pk)
    if row.state is not Harvest.READING:
        return True
    now = timezone.now()
    is_news = bool(look.scalars) or row.looked_at is None or now - row.looked_at > RETOLD or look.last
    values: dict[str, Any] = {"looked_at": now, "broken": 0, "token_until": now + TOKEN}
    values["empty"] = 0 if look.files else row.empty + 1
    if row.points > MOST_POINTS:
        values |= _over(Harvest.DONE, "too-many")
    elif is_enough(row.job.state, look.files, last=look.last):
        end = row.job.state.is_final
        values |= _over(Harvest.DONE if end else Harvest.WAITING, "torn" if end and look.waiting else "")
        if not end and not look.files:
            values["next_at"] = now + pause(values["empty"])
    EventReader.objects.filter(pk=row.pk).update(**values)
    if is_news or "phase" in values:
        streams.hint(row.job.topic)
    if "phase" in values:
        wake(TASK, row.pk)
    return "phase" in values


def pause_after(look: Look) -> timedelta:
    return BUSY if look.scalars else IDLE


def _over(phase: Harvest, reason: str) -> dict[str, Any]:
    """The pod has done its work; what it leaves is taken away by the next step."""
    gone: dict[str, Any] = {"phase": phase, "reason": reason, "reason_params": {}, "due_at": Now(), "next_at": None}
    return gone | {"token_digest": "", "token_until": None}


def _keep(row: EventReader, attempt: int, told: Told) -> int:
    """Write the points of a piece; what has no curve is counted."""
    folders, now, readings = Folders(row.folders), timezone.now(), []
    for tag, step, value, at in told.scalars:
        series = folders.series(attempt, told.path, tag)
        if not series or step < 0:
            row.left_out += 1
            continue
        readings.append((series, step, value, _moment(at) or now))
    return streams.record_points(row.job.topic, attempt, readings, origin=streams.Origin.TENSORBOARD)


def _starts(job: Job) -> dict[int, datetime]:
    """When the ranks of each attempt started."""
    ranks = JobRank.objects.filter(job=job).exclude(started_at=None)
    rows = ranks.values("attempt").annotate(first=Min("started_at"))
    return {row["attempt"]: row["first"] for row in rows}


def _note_found(job: Job, attempt: int, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Once for each attempt."""
    if sum(1 for file in files.values() if file["attempt"] == attempt) == 1:
        target = f"job:{job.pk}"
        audit.record(EVENTS_FOUND, READER, target, tenant_id=job.tenant_id, name=job.name, attempt=attempt)


def _moment(seconds: float) -> datetime | None:
    good = math.isfinite(seconds) and 0 < seconds < LATEST
    return datetime.fromtimestamp(seconds, UTC) if good else None


# --- the cluster's side -----------------------------------------------------------------------------------------------


def new_token(reader: EventReader) -> str:
    """A token for the pod that is about to be sent; only its hash is kept."""
    clear = "me_" + secrets.token_urlsafe(32)
    until = timezone.now() + TOKEN
    EventReader.objects.filter(pk=reader.pk).update(token_digest=hashed(clear), token_until=until)
    return clear


def note_sent(reader: EventReader) -> None:
    """The pod is there."""
    rows = EventReader.objects.filter(pk=reader.pk, phase=Harvest.WAITING)
    rows.update(phase=Harvest.READING, sent_at=timezone.now(), reason="", reason_params={})
    streams.hint(reader.job.topic)


def note_broken(reader: EventReader, reason: str, **params: Any) -> None:
    """A pod ended without a word, or never began: another one is sent later, and at the job's end, but not for ever."""
    broken = reader.broken + 1
    again = pause_broken(broken)
    values = _over(Harvest.WAITING if again else Harvest.FAILED, reason) | {"reason_params": params, "broken": broken}
    if again:
        values["next_at"] = timezone.now() + again
    EventReader.objects.filter(pk=reader.pk, phase=reader.phase).update(**values)
    streams.hint(reader.job.topic)


def give_up(reader: EventReader, reason: str, **params: Any) -> None:
    """Nothing more is tried."""
    values = _over(Harvest.FAILED, reason) | {"reason_params": params}
    EventReader.objects.filter(pk=reader.pk).exclude(phase__in=ENDED).update(**values)
    streams.hint(reader.job.topic)


def tell_wait(reader: EventReader, reason: str, **params: Any) -> None:
    """Say what is waited for."""
    if (reader.reason, reader.reason_params) != (reason, params):
        EventReader.objects.filter(pk=reader.pk).update(reason=reason, reason_params=params)
        streams.hint(reader.job.topic)
