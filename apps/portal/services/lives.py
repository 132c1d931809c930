"""How the things of several apps belong together: a job, the models made from it, their deployments. The audit log
tells the life of one with those of the others."""

from __future__ import annotations

from apps.catalog.services import ModelVersion
from apps.serving.services import Deployment


def models_of_job(job_id: str) -> list[str]:
    """The models with a version made from this job."""
    made = ModelVersion.objects.for_system().filter(lineage__job__id=job_id)
    return [f"model:{pk}" for pk in made.order_by("model_id").values_list("model_id", flat=True).distinct()]


def deployments_of_model(model_id: str) -> list[str]:
    """The deployments of this model's versions, in their order."""
    served = Deployment.objects.for_system().filter(version__model_id=model_id).order_by("pk")
    return [f"deployment:{pk}" for pk in served.values_list("pk", flat=True)]


def model_of_deployment(deployment_id: str) -> list[str]:
    """The model that this deployment serves, if that is still there."""
    models = Deployment.objects.for_system().filter(pk=deployment_id, version__isnull=False)
    return [f"model:{pk}" for pk in models.values_list("version__model_id", flat=True)]
