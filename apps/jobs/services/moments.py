"""What the cluster did with a job's ranks, as moments of its time line: starts, ends, what it said of their pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from apps.jobs.models import Job, JobRank
from apps.jobs.services import podevents

LANES = ("loss-watch", "people", "phases", "ranks", "pods", "nodes", "checkpoints")
RANKS_READ = 5000
FEW = 8
"""So many starts or ends of an attempt that are alike are told one by one; more of them together."""


@dataclass(frozen=True)
class Moment:
    """Something that happened, `count` times until `until` where it did more than once; `raw` is what the cluster said,
    "" where it said nothing else. `x` in percent of the time axis."""

    at: datetime
    lane: str
    tone: str
    text: str
    x: float = 0.0
    count: int = 1
    until: datetime | None = None
    raw: str = ""

    @property
    def y(self) -> int:
        return 14 * LANES.index(self.lane)


def rank_moments(job: Job) -> list[Moment]:
    """Starts and ends; where a thousand ranks start or end alike, that is one moment."""
    starts: dict[int, list[JobRank]] = {}
    ends: dict[tuple[int, int | None, str], list[JobRank]] = {}
    for rank in JobRank.objects.filter(job=job).order_by("-attempt", "rank")[:RANKS_READ]:
        if rank.started_at:
            starts.setdefault(rank.attempt, []).append(rank)
        if rank.ended_at:
            ends.setdefault((rank.attempt, rank.exit_code, rank.end_reason), []).append(rank)
    found: list[Moment] = []
    for ranks in starts.values():
        found += [_start(rank) for rank in ranks] if len(ranks) <= FEW else [_starts(ranks)]
    for ranks in ends.values():
        found += [_end(rank) for rank in ranks] if len(ranks) <= FEW else [_ends(ranks)]
    return found


def _start(rank: JobRank) -> Moment:
    assert rank.started_at
    text = _("Rank {rank} started on {node}").format(rank=rank.rank, node=rank.node)
    return Moment(rank.started_at, "ranks", "green", text)


def _starts(ranks: Sequence[JobRank]) -> Moment:
    times = sorted(rank.started_at for rank in ranks if rank.started_at)
    text = ngettext("{n} rank started", "{n} ranks started", len(ranks)).format(n=len(ranks))
    return Moment(times[0], "ranks", "green", text, count=len(ranks), until=times[-1])


def _end(rank: JobRank) -> Moment:
    assert rank.ended_at
    code = "–" if rank.exit_code is None else rank.exit_code
    text = _("Rank {rank} ended on {node}, exit code {code}").format(rank=rank.rank, node=rank.node, code=code)
    told = [text, *filter(None, (podevents.end_text(rank.end_reason), rank.message))]
    return Moment(rank.ended_at, "ranks", _end_tone(rank), ": ".join(told))


def _ends(ranks: Sequence[JobRank]) -> Moment:
    """`ranks` have ended alike."""
    times = sorted(rank.ended_at for rank in ranks if rank.ended_at)
    code = "–" if ranks[0].exit_code is None else ranks[0].exit_code
    text = ngettext("{n} rank ended, exit code {code}", "{n} ranks ended, exit code {code}", len(ranks))
    told = [text.format(n=len(ranks), code=code), *filter(None, [podevents.end_text(ranks[0].end_reason)])]
    return Moment(times[0], "ranks", _end_tone(ranks[0]), ": ".join(told), count=len(ranks), until=times[-1])


def _end_tone(rank: JobRank) -> str:
    return "red" if rank.exit_code or rank.end_reason else "grey"


def pod_moments(job: Job) -> list[Moment]:
    """What the cluster said of its pods, in words; the same of many at about one time is one moment."""
    found = []
    for told in podevents.told_of(job):
        tone, what = podevents.words(told)
        who = _who(told.ranks, told.nodes)
        text = _("{who}: {what}").format(who=who, what=what) if who else what
        repeated = told.count > 1 or told.at != told.first
        until = told.at if repeated else None
        found.append(Moment(told.first, "pods", tone, text, count=told.count, until=until, raw=told.message))
    return found


def _who(ranks: Sequence[int], nodes: Sequence[str]) -> str:
    if not ranks:
        return ""
    if len(ranks) > 1:
        return ngettext("{n} rank", "{n} ranks", len(ranks)).format(n=len(ranks))
    if nodes:
        return _("Rank {rank} on {node}").format(
            rank=ranks[0], node=pgettext("between the parts of a list", ", ").join(nodes)
        )
    return _("Rank {rank}").format(rank=ranks[0])
