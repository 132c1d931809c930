"""The time line of a job as a picture: where on a scale from 0 to 100 each stretch begins and how wide it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.jobs.domain.phases import Phase
from apps.jobs.services.reading import Stretch

_TONES = {
    Phase.SUBMITTED: "blue",
    Phase.WAITING: "amber",
    Phase.STARTING: "blue",
    Phase.RUNNING: "green",
    Phase.RESTARTING: "amber",
    Phase.SUSPENDING: "violet",
    Phase.SUSPENDED: "violet",
    Phase.STOPPING: "grey",
}
NARROWEST = 0.4
LABEL = 12.0
"""A stretch of an attempt narrower than this has no room for its name, in percent."""


@dataclass(frozen=True)
class Part:
    """`x` and `width` in percent; `past` marks a run of an attempt before the last."""

    x: float
    width: float
    tone: str
    stretch: Stretch
    past: bool

    @property
    def seconds(self) -> float | None:
        end = self.stretch.end
        return (end - self.stretch.start).total_seconds() if end else None


@dataclass(frozen=True)
class Attempt:
    """A run as one label: `middle` in percent, `seconds` it has run."""

    number: int
    middle: float
    seconds: float
    fits: bool


@dataclass(frozen=True)
class Break:
    """A run that broke and was begun again: `x` in percent, `back` when its next attempt ran, `attempt` the one that
    broke."""

    x: float
    at: datetime
    back: datetime | None
    attempt: int
    reason: str


@dataclass(frozen=True)
class Picture:
    """`now` in percent; beyond it lies what is to come, up to `ready` (None when nobody knows, then now is the end)."""

    parts: list[Part]
    attempts: list[Attempt]
    breaks: list[Break]
    now: float
    start: datetime
    at: datetime
    running: datetime | None
    ready: datetime | None
    ended: bool

    @property
    def rest(self) -> float:
        return 100 - self.now

    @property
    def labelled(self) -> bool:
        """Whether any run has room for its name below the bar."""
        return any(attempt.fits for attempt in self.attempts)

    @property
    def now_fits(self) -> bool:
        """Whether there is room for a label at now, between those at both ends."""
        return 25 < self.now < 80

    @property
    def tones(self) -> list[Part]:
        """One part of each phase, for the legend, in the order they came."""
        seen: dict[tuple[Phase, bool], Part] = {}
        for part in self.parts:
            seen.setdefault((part.stretch.phase, part.past), part)
        return list(seen.values())


def picture_of(stretches: Sequence[Stretch], at: datetime, ready: datetime | None, *, ended: bool) -> Picture | None:
    """Draw the stretches up to `at` (now, or the job's end), with room up to `ready`; None when there is none."""
    if not stretches:
        return None
    start = stretches[0].start
    whole = max((max(ready or at, at) - start).total_seconds(), 1.0)

    def place(moment: datetime) -> float:
        return round(100 * min(max((moment - start).total_seconds() / whole, 0), 1), 2)

    last = max(stretch.attempt for stretch in stretches)
    parts = []
    for stretch in stretches:
        x, end = place(stretch.start), place(stretch.end or at)
        past = stretch.phase is Phase.RUNNING and stretch.attempt < last
        tone = "past" if past else _TONES[stretch.phase]
        parts.append(Part(x, max(round(end - x, 2), NARROWEST), tone, stretch, past))
    running = next((stretch.start for stretch in stretches if stretch.phase is Phase.RUNNING), None)
    return Picture(parts, _attempts(parts, at), _breaks(parts), place(at), start, at, running, ready, ended)


def _breaks(parts: Sequence[Part]) -> list[Break]:
    found = []
    for index, part in enumerate(parts):
        if part.stretch.phase is Phase.RESTARTING:
            later = (p.stretch.start for p in parts[index:] if p.stretch.phase is Phase.RUNNING)
            stretch = part.stretch
            found.append(Break(part.x, stretch.start, next(later, None), stretch.attempt - 1, stretch.reason))
    return found


def _attempts(parts: Sequence[Part], at: datetime) -> list[Attempt]:
    runs: dict[int, list[Part]] = {}
    for part in parts:
        if part.stretch.phase is Phase.RUNNING:
            runs.setdefault(part.stretch.attempt, []).append(part)
    found = []
    for number, own in runs.items():
        left, right = own[0].x, own[-1].x + own[-1].width
        spent = sum(((p.stretch.end or at) - p.stretch.start for p in own), timedelta())
        found.append(Attempt(number, (left + right) / 2, spent.total_seconds(), right - left >= LABEL))
    return found
