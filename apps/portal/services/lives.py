"""How things of several apps belong together, for the audit log: jobs and models know each other through the portal."""

from __future__ import annotations

from apps.catalog.services import ModelVersion


def models_of_job(job_id: str) -> list[str]:
    """The models with a version made from this job."""
    made = ModelVersion.objects.for_system().filter(lineage__job__id=job_id)
    return [f"model:{pk}" for pk in made.order_by("model_id").values_list("model_id", flat=True).distinct()]
