"""How fast a job trains and what that has taken so far, from the figures of its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.jobs.models import Job
from apps.jobs.services.checkpoints import watch_of
from apps.jobs.services.holding import ON_NODES
from apps.jobs.services.predicting import PLAN, Prediction
from apps.jobs.services.reading import Stretch
from apps.streams import services as streams

SHOWN = 60
"""The steps that the newest mean and the small line are made of."""


@dataclass(frozen=True)
class Pace:
    """`tokens` a second over all ranks, as the last steps came; `trend` the same, oldest first. What the log does not
    tell is None. `gpu_hours` counts from the moment its ranks had a place. `predicted` is what the loss watch holds the
    throughput against; None: the run's own first steps."""

    tokens: float | None
    trend: list[float]
    step_seconds: float | None
    grad_norm: float | None
    learning_rate: float | None
    gpu_use: float | None
    gpu_hours: float
    gpu_hours_in_all: float | None
    predicted: Prediction | None = None

    @property
    def share(self) -> float | None:
        """Of what was predicted, in percent."""
        return 100 * self.tokens / self.predicted.tokens if self.predicted and self.tokens is not None else None

    @property
    def known(self) -> bool:
        return self.step_seconds is not None or self.tokens is not None


def pace_of(job: Job, stretches: Sequence[Stretch], at: datetime, ready: datetime | None) -> Pace:
    """The pace up to `at` (now, or the job's end), and what it comes to if it is `ready` then."""
    topic = job.topic
    tokens = streams.recent([topic], "tokens_per_second", SHOWN).get(topic, [])
    steps = streams.recent([topic], "loss", SHOWN).get(topic, [])
    values = [point.value for point in tokens]
    hours = sum(
        ((stretch.end or at) - stretch.start).total_seconds() / 3600
        for stretch in stretches
        if stretch.phase in ON_NODES
    )
    return Pace(
        tokens=sum(values) / len(values) if values else None,
        trend=values,
        step_seconds=_step_seconds(steps),
        grad_norm=_last(topic, "grad_norm"),
        learning_rate=_last(topic, "learning_rate"),
        gpu_use=_last(topic, "gpu_utilisation"),
        gpu_hours=job.gpus * hours,
        gpu_hours_in_all=job.gpus * (hours + (ready - at).total_seconds() / 3600) if ready else None,
        predicted=Prediction.load(watch_of(job).snapshot.get(PLAN)),
    )


def _last(topic: str, series: str) -> float | None:
    point = streams.latest([topic], series).get(topic)
    return point.value if point else None


def _step_seconds(points: list[streams.LastPoint]) -> float | None:
    if len(points) < 2:
        return None
    seconds, steps = (points[-1].at - points[0].at).total_seconds(), points[-1].step - points[0].step
    return seconds / steps if seconds > 0 and steps > 0 else None
