"""The curves of a job: what they are called, and as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import or_

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.clusters.services import devices
from apps.jobs.domain.traininglog import MARKS
from apps.jobs.models import Job
from apps.streams import services as streams

SERIES: dict[str, tuple[str | Promise, str | Promise]] = {
    "loss": (_("Loss"), ""),
    "eval_loss": (_("Evaluation loss"), ""),
    "learning_rate": (_("Learning rate"), ""),
    "grad_norm": (_("Gradient norm"), ""),
    "tokens_per_second": (_("Throughput"), _("tokens/s")),
    "loss_scale": (_("Loss scale"), ""),
    "gpu_utilisation": (_("GPU utilisation"), "%"),
}
"""Title and unit of the series that have a name of ours, in the order in which they are offered."""


ORIGINS: dict[streams.Origin, Promise] = {
    streams.Origin.LOG: _("read from the log"),
    streams.Origin.PUSHED: _("sent by the job"),
    streams.Origin.PROMETHEUS: _("read from Prometheus"),
    streams.Origin.TENSORBOARD: _("read from TensorBoard's event files"),
}


@dataclass(frozen=True)
class Series:
    name: str
    title: str
    unit: str
    attempts: list[int]
    points: int
    origins: list[streams.Origin]

    @property
    def source(self) -> str:
        """Where its points come from, in words; "" for the log alone."""
        return "" if self.origins == [streams.Origin.LOG] else " · ".join(str(ORIGINS[one]) for one in self.origins)


def series_of(job: Job) -> list[Series]:
    """The series a job has points of, those with a name of ours first."""
    known: dict[str, list[streams.Curve]] = {}
    for curve in streams.curves_known(job.topic):
        if curve.series in MARKS or curve.series in devices.SERIES:
            continue
        known.setdefault(curve.series, []).append(curve)
    order = [name for name in SERIES if name in known] + [name for name in known if name not in SERIES]
    return [_told(name, known[name]) for name in order]


def _told(name: str, curves: list[streams.Curve]) -> Series:
    title, unit = SERIES.get(name, (name, ""))
    attempts, points = [curve.attempt for curve in curves], sum(curve.points for curve in curves)
    return Series(name, str(title), str(unit), attempts, points, streams.origins_of(_either(curves)))


def _either(curves: Iterable[streams.Curve]) -> int:
    return reduce(or_, (curve.origins for curve in curves), 0)


CSV_FIELDS = ("series", "attempt", "step", "value", "time", "origin")
ROWS_AT_ONCE = 2000


def as_csv(points: Iterable[streams.Told]) -> Iterator[bytes]:
    """Points as the pieces of a table; values exactly as they are kept, times in UTC."""
    yield _lines([CSV_FIELDS])
    rows = ((p.series, p.attempt, p.step, repr(p.value), p.at.isoformat(), p.origin.word) for p in points)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield _lines(some)


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
