"""Judging the figures of a job as they come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import transaction

from apps.jobs.domain.losswatch import Memory, Point, Rules, Snapshot, State, follow, needs_all
from apps.jobs.models import Job, LossWatch
from apps.jobs.services import losswatch
from apps.jobs.services.predicting import PLAN, Prediction, predict
from apps.streams import services as streams

SERIES = ("loss", "grad_norm", "tokens_per_second", "loss_scale", "skipped_steps", "nan_iterations")
MOST = 20_000
"""Points of a series that are read at once. Whoever has more unjudged, as after a restart from the very beginning, is
judged by the newest."""


@transaction.atomic
def watch_loss(job_id: str) -> None:
    """Judge what the job's log has told since the last time; the row's lock lets workers take turns. Repeatable: what
    is found depends on the points alone."""
    row = _locked(job_id) or _begun(job_id)
    if row is None:
        return
    job = row.job
    settings = losswatch.settings_of(job, row)
    if row.state == State.TRIPPED or not settings.is_on:
        return
    before = row.snapshot
    memory = _judged(row, replace(settings.rules, pace=_predicted(row)))
    if memory is None:
        return
    if memory.verdict:
        losswatch.trip(row, settings, memory.verdict)
    elif losswatch.note(row, settings, memory) or row.snapshot != before:
        row.save()


def _locked(job_id: str) -> LossWatch | None:
    rows = LossWatch.objects.select_for_update(of=("self",)).select_related("job__owner", "job__placement")
    return rows.filter(job_id=job_id).first()


def _begun(job_id: str) -> LossWatch | None:
    """The row of a job whose log has told its first figure; None before that."""
    known = Job.objects.for_system().filter(pk=job_id).exists()
    if not known or not streams.logged(Job(pk=job_id).topic, SERIES, limit=1):
        return None
    LossWatch.objects.get_or_create(job_id=job_id)
    return _locked(job_id)


def _judged(row: LossWatch, rules: Rules) -> Memory | None:
    """What is remembered after all points so far; the snapshot moves on. None where there is no point yet."""
    snapshot = _load(row.snapshot)
    points = _points(row, snapshot)
    if needs_all(snapshot, points):
        snapshot = Snapshot()
        points = _points(row, snapshot)
    if not points:
        return None
    memory, snapshot = follow(rules, snapshot, points)
    told = {"attempt": snapshot.attempt, "step": snapshot.step, "memory": snapshot.memory.dump()}
    row.snapshot = {**row.snapshot, **told}
    return memory


def _predicted(row: LossWatch) -> float | None:
    """What finished jobs alike said when this one told its first figure: one measure for all of a run."""
    if PLAN not in row.snapshot:
        found = predict(row.job)
        row.snapshot = {**row.snapshot, PLAN: found and found.dump()}
    known = Prediction.load(row.snapshot[PLAN])
    return known.tokens if known else None


def _load(stored: dict[str, Any]) -> Snapshot:
    if "memory" not in stored:
        return Snapshot()
    return Snapshot(stored["attempt"], stored["step"], Memory.load(stored["memory"]))


def _points(row: LossWatch, snapshot: Snapshot) -> list[Point]:
    """Points that count and are not in the snapshot."""
    attempt, step = max((snapshot.attempt, snapshot.step), (row.from_attempt, row.from_step))
    found = streams.logged(row.job.topic, SERIES, attempt=attempt, step=step, limit=MOST)
    return [Point(point.attempt, point.step, point.series, point.value) for point in found]
