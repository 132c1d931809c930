"""All that befell a job on one time axis: figures, phases, ranks, checkpoints, verdicts, and what people did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.db.models import Max, Min
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobRank
from apps.jobs.services import loss_words
from apps.jobs.services.checkpoints import checkpoints_of, watch_of
from apps.jobs.services.control import JOB_RESUMED, JOB_STOPPED, JOB_SUSPENDED
from apps.jobs.services.losswatch import LOSS_DISMISSED, LOSS_SET
from apps.jobs.services.messages import reason_text
from apps.jobs.services.moments import Moment, pod_moments, rank_moments
from apps.jobs.services.picture import Picture, picture_of
from apps.jobs.services.reading import Stretch, timeline_of
from apps.jobs.services.submit import JOB_SUBMITTED
from apps.streams import services as streams

POINTS = 5000
COLUMNS = 400
"""A curve has at most so many columns, each with its lowest and its highest value."""
MOST = 500
"""Moments of a kind that are told."""
_PEOPLE = (JOB_SUBMITTED, JOB_STOPPED, JOB_SUSPENDED, JOB_RESUMED, LOSS_SET, LOSS_DISMISSED)
END = 2**63
AFTERMATH = timedelta(minutes=5)
WIDTH, HEIGHT = 1000, 100


@dataclass(frozen=True)
class Curve:
    """`pieces` are polylines on a plane of 1000 by 100; `odd` are the places on it of what is no number."""

    name: str
    pieces: list[str]
    odd: list[float]
    low: float
    high: float
    is_log: bool


@dataclass(frozen=True)
class Incidents:
    picture: Picture
    curves: list[Curve]
    moments: list[Moment]

    @property
    def newest_first(self) -> list[Moment]:
        return self.moments[::-1]


@dataclass(frozen=True)
class MomentPage:
    """Moments of a job, newest first; `before` leads on to older ones, "" where there are none. `began` is when the job
    was submitted."""

    moments: list[Moment]
    before: str
    began: datetime | None
    ended: datetime | None


class BadPlace(ValueError):
    """What was asked to go on from is no place in a time line."""


def incidents_of(job: Job) -> Incidents | None:
    """None for a job whose history is gone."""
    now = job.ended_at or timezone.now()
    stretches = timeline_of(job)
    picture = picture_of(stretches, now, None, ended=job.ended_at is not None)
    if picture is None:
        return None
    start, whole = picture.start, max((now - picture.start).total_seconds(), 1.0)

    def place(at: datetime) -> float:
        return round(100 * min(max((at - start).total_seconds() / whole, 0), 1), 2)

    moments = [replace(one, x=place(one.at)) for one in _moments(job, stretches, now)]
    names = (("loss", _("Loss")), ("tokens_per_second", _("Throughput")), ("gpu_utilisation", _("GPU use")))
    curves = []
    for series, name in names:
        points = [(place(at), value) for at, value in _used(job)] if series == "gpu_utilisation" else []
        points = points or [(place(p.at), p.value) for p in streams.logged(job.topic, (series,), limit=POINTS)]
        if points:
            curves.append(_curve(name, sorted(points), can_log=series == "loss"))
    return Incidents(picture, curves, moments)


def moments_of(job: Job, *, lane: str = "", before: str = "", limit: int = 50) -> MomentPage:
    """What happened, newest first: of one lane, and before the place that another page led to. Raises BadPlace."""
    stretches = timeline_of(job)
    places: list[tuple[tuple[int, int], Moment]] = []
    for one in _moments(job, stretches, job.ended_at or timezone.now()):
        at = int(one.at.timestamp() * 1_000_000)
        known = places[-1][0] if places else (0, 0)
        places.append(((at, known[1] + 1 if known[0] == at else 0), one))
    end = _place(before) if before else (END, 0)
    found = [(place, one) for place, one in places[::-1] if place < end and lane in ("", one.lane)]
    shown = found[:limit]
    on = "{}-{}".format(*shown[-1][0]) if len(found) > limit else ""
    return MomentPage([one for _place, one in shown], on, stretches[0].start if stretches else None, job.ended_at)


def _place(text: str) -> tuple[int, int]:
    """A microsecond since 1970, and which of the moments within it."""
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise BadPlace
    return int(parts[0]), int(parts[1])


def _moments(job: Job, stretches: Sequence[Stretch], now: datetime) -> list[Moment]:
    """All that is told, the oldest first."""
    told = [*_phases(stretches, job)[-MOST:], *rank_moments(job), *pod_moments(job), *_nodes(job, now)]
    told += [*_saved(job), *_verdicts(job), *_people(job)]
    return sorted(told, key=lambda one: one.at)


def _used(job: Job) -> list[tuple[datetime, float]]:
    """The use of a job's devices by Prometheus, over all attempts: a step of that series is a second since 1970."""
    curves = streams.series(job.topic, "gpu:use", streams.Stretch(width=COLUMNS))
    return [
        (datetime.fromtimestamp(step, UTC), value)
        for curve in curves
        for step, value in zip(curve["steps"], curve["values"], strict=True)
    ]


def _curve(name: str, points: Sequence[tuple[float, float]], *, can_log: bool) -> Curve:
    good = [(x, value) for x, value in points if math.isfinite(value)]
    odd = [WIDTH * x / 100 for x, value in points if not math.isfinite(value)]
    values = [value for _x, value in good]
    low, high = min(values, default=0.0), max(values, default=0.0)
    is_log = can_log and low > 0 and high / low > 100
    bottom, top = (math.log(low), math.log(high)) if is_log else (low, high)
    columns: dict[int, list[float]] = {}
    for x, value in good:
        columns.setdefault(int(x / 100 * COLUMNS), []).append(math.log(value) if is_log else value)
    line = []
    for column, inside in sorted(columns.items()):
        x = WIDTH * column / COLUMNS
        for value in sorted({min(inside), max(inside)}):
            share = (value - bottom) / (top - bottom) if top > bottom else 0.5
            line.append(f"{x:.1f},{HEIGHT - 4 - share * (HEIGHT - 8):.1f}")
    return Curve(name, [" ".join(line)] if line else [], odd[:MOST], low, high, is_log)


def _phases(stretches: Sequence[Stretch], job: Job) -> list[Moment]:
    tones = {Phase.RESTARTING: "red", Phase.RUNNING: "green", Phase.SUSPENDED: "violet"}
    nothing = reason_text("", {})
    found = []
    for s in stretches:
        text = loss_words.phase_text(s.phase, s.attempt, "" if s.reason == nothing else s.reason)
        found.append(Moment(s.start, "phases", tones.get(s.phase, "grey"), text))
    if job.ended_at:
        tone = "red" if job.state is Phase.FAILED else "grey"
        found.append(Moment(job.ended_at, "phases", tone, loss_words.phase_text(job.state, job.attempt, "")))
    return found


def _nodes(job: Job, now: datetime) -> list[Moment]:
    """What befell nodes while ranks were on them, or just after: a node that dies says so once its pods are gone."""
    began, ended = Min(Coalesce("started_at", job.created_at)), Max(Coalesce("ended_at", now))
    rows = JobRank.objects.filter(job=job).exclude(node="").values("node").annotate(began=began, ended=ended)
    held = {row["node"]: (row["began"], row["ended"] + AFTERMATH) for row in rows}
    if not held:
        return []
    first, last = min(began for began, _e in held.values()), min(now, max(ended for _b, ended in held.values()))
    found = [
        Moment(one.at, "nodes", one.tone, _("Node {node}: {what}").format(node=one.node, what=one.text))
        for one in clusters.history_of(job.placement.cluster_id, held.keys(), first, last)
        if held[one.node][0] <= one.at <= held[one.node][1]
    ]
    return found[-MOST:]


def _saved(job: Job) -> list[Moment]:
    good, bad = _("Checkpoint of step {step}"), _("Checkpoint of step {step}, in quarantine")
    return [
        Moment(s.at, "checkpoints", "blue" if s.good else "red", (good if s.good else bad).format(step=s.step))
        for s in checkpoints_of(job)[:MOST]
    ]


def _verdicts(job: Job) -> list[Moment]:
    row = watch_of(job)
    if row.since is None or not row.finding:
        return []
    text = loss_words.finding_text(row.finding)
    return [Moment(row.since, "loss-watch", "red" if row.verdict else "amber", text)]


def _people(job: Job) -> list[Moment]:
    """What was asked for, by people and by the loss watch, in the words of the audit log."""
    mine = audit.Entry.objects.filter(target=job.audit_id, action__in=[what.key for what in _PEOPLE])
    entries = list(mine.order_by("-id")[:MOST])
    names = audit.names_for(entries, mine)
    return [Moment(entry.at, "people", "ink", audit.plain_sentence(entry, names)) for entry in entries]
