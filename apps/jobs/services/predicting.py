"""What throughput a job is expected to have: that of finished jobs of its tenant which did the same work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from apps.jobs.domain.losswatch import FIELDS
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.spec import ACCESS_FIELDS, DATA_FIELDS
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Job
from apps.streams import services as streams

PLAN = "plan"
"""Where a watch's snapshot keeps it."""
LOOKED_AT, MOST = 100, 9
"""Of so many finished jobs of the template and size, newest first, up to so many that are alike."""
STEADY = 200
"""The last speeds of a job, of which the median is its own."""
LEAST = 20
"""With fewer it says nothing: a job is slow while it begins."""
_INDIFFERENT = {*DATA_FIELDS, *ACCESS_FIELDS, *FIELDS, "attempts", "grace_seconds", "seed", "checkpoint_every"}


@dataclass(frozen=True)
class Prediction:
    """Tokens a second, the median over `jobs`: names of those it was taken from."""

    tokens: float
    jobs: tuple[str, ...]

    def dump(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "jobs": list(self.jobs)}

    @classmethod
    def load(cls, stored: Mapping[str, Any] | None) -> Prediction | None:
        return cls(stored["tokens"], tuple(stored["jobs"])) if stored else None


def predict(job: Job) -> Prediction | None:
    """From finished jobs of the tenant with the same program, parameters and ranks on the same accelerators; None where
    there is none. What changes no speed may differ: name, seed, learning rate, number of steps."""
    finished = Job.objects.for_system().filter(
        tenant_id=job.tenant_id, phase=Phase.SUCCEEDED, gpus=job.gpus, document__template=job.document["template"],
        placement__cluster_id=job.placement.cluster_id, placement__accelerator=job.placement.accelerator,
    )  # fmt: skip
    mine = _work(job.document)
    alike = [one for one in finished.order_by("-id")[:LOOKED_AT] if _work(one.document) == mine]
    speeds = streams.recent([one.topic for one in alike], "tokens_per_second", STEADY)
    found = list[tuple[float, str]]()
    for one in alike:
        values = [point.value for point in speeds.get(one.topic, ()) if math.isfinite(point.value) and point.value > 0]
        if len(values) >= LEAST and len(found) < MOST:
            found.append((median(values), one.name))
    return Prediction(median(speed for speed, _name in found), tuple(name for _speed, name in found)) if found else None


def _work(document: Mapping[str, Any]) -> dict[str, Any]:
    """What of a document decides how fast its job is."""
    template = TEMPLATES[document["template"]]
    indifferent = {*_INDIFFERENT, template.steps_field, template.rate_field}
    return {key: value for key, value in document.items() if key not in indifferent}
