"""A job's checkpoint as a version of a model: what the catalog is told of where it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from apps.accounts.types import Actor
from apps.catalog import services as catalog
from apps.catalog.services import Fault, Invalid, Registration
from apps.jobs.domain.manifests import object_name
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Job
from apps.jobs.services.checkpoints import offered, watch_of
from apps.jobs.services.reading import progress_of
from apps.streams import services as streams

PRIVATE = frozenset({"environment", "secrets"})
"""Parameters that stay with the job: a version may be seen by more people than it is."""


def may_have_checkpoint(job: Job) -> bool:
    """Whether a checkpoint can be there already, as far as is known without looking into the job's volume."""
    if job.running_at is None and job.state is not Phase.SUCCEEDED:  # one that was quick may not have been seen to run
        return False
    every = job.document.get("checkpoint_every")
    return not every or (progress_of([job])[job.pk].step or 0) >= int(every)


def register_model(actor: Actor, *, job: Job, said: Mapping[str, Any], key: str = "") -> catalog.ModelVersion:
    """Register the newest good checkpoint of a job, never one in quarantine. `said` is what people say of the model:
    `model_id` for its next version, else name, licence, visibility, card, tags; and a note. Raises Denied, Invalid."""
    if not may_have_checkpoint(job):
        raise Invalid([Fault("job", "no-checkpoint")])
    watch = watch_of(job)
    if watch.quarantine and offered(job) is None:
        raise Invalid([Fault("job", "quarantined")])
    registration = Registration(
        tenant_id=job.tenant_id,
        placement_id=job.placement_id,
        claim=object_name(job.pk),
        lineage=lineage_of(job),
        until_step=watch.good_step if watch.quarantine else None,
        key=key,
        **said,
    )
    return catalog.register(actor, registration)


def lineage_of(job: Job) -> dict[str, Any]:
    """Everything a version keeps of the job that made it."""
    spec = job.spec
    template = TEMPLATES[spec.template]
    parameters = {key: value for key, value in spec.parameters.items() if key not in PRIVATE}
    sizes = {key: getattr(spec, key) for key in ("ranks", "gpus_per_rank", "cpus_per_rank", "memory_gib_per_rank")}
    return {
        "job": {
            "id": job.pk,
            "name": job.name,
            "attempt": job.attempt,
            "owner": str(job.owner_id),
            "template": spec.template,
            "gpus": job.gpus,
            "submitted_at": job.created_at.isoformat(),
        },
        "code": {"image": spec.container.image, "command": spec.container.command},
        "data": {"name": template.data[0], "digest": template.data[1]} if template.data else {},
        "parameters": parameters | sizes,
        "metrics": {"loss": loss} if (loss := _loss(job)) else {},
    }


def _loss(job: Job) -> dict[str, Any]:
    """First, last and best loss, and the step of the last; what is no number is left out."""
    points = [
        (step, value)
        for curve in streams.series(job.topic, "loss", streams.Stretch(width=5000))
        for step, value in zip(curve["steps"], curve["values"], strict=True)
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    if not points:
        return {}
    step, last = points[-1]
    return {"first": points[0][1], "last": last, "best": min(value for _step, value in points), "step": step}
