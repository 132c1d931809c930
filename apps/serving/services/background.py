"""What lower apps ask of serving through their registries, and what background work does to a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.types import Actor
from apps.catalog import services as catalog
from apps.clusters import services as clusters
from apps.serving.domain.phases import ALIVE, Phase
from apps.serving.models import Deployment, Replica
from apps.serving.services.messages import phase_name
from apps.tenants import services as tenants

PREFIX = "deployment:"


def due_deployments() -> list[str]:
    """Ids of deployments to look at now."""
    return clusters.due(Deployment.objects.for_system())


def known_deployments(ids: set[str]) -> set[str]:
    """Those of some ids that are deployments of ours; objects of others are orphans."""
    return set(Deployment.objects.for_system().filter(pk__in=ids).values_list("pk", flat=True))


def may_follow(actor: Actor, deployment_id: str) -> bool:
    return Deployment.objects.visible_to(actor).filter(pk=deployment_id).exists()


def tenant_of(deployment_id: str) -> int | None:
    return Deployment.objects.for_system().filter(pk=deployment_id).values_list("tenant_id", flat=True).first()


def waiting_deployments(cluster_id: int) -> list[str]:
    """Ids of deployments that waited for a cluster which answers again."""
    return clusters.waiting(Deployment.objects.for_system().filter(placement__cluster_id=cluster_id))


def deployment_rows(deployment_id: str) -> QuerySet[Deployment]:
    """The row of one deployment, for a look at it."""
    return (
        Deployment.objects.for_system()
        .filter(pk=deployment_id)
        .select_related("tenant", "placement__tenant", "placement__cluster", "version")
    )


def live_subjects() -> set[str]:
    """Everything that has to hold quota now: what is in the cluster, or may be."""
    alive = Deployment.objects.for_system().filter(Q(phase__in=ALIVE) | Q(held__gt=0))
    return {f"{PREFIX}{pk}" for pk in alive.values_list("pk", flat=True)}


def subjects_on_nodes(subjects: set[str]) -> set[str]:
    """Those of some subjects of which a replica has its node."""
    ids = [subject.removeprefix(PREFIX) for subject in subjects]
    placed = Replica.objects.filter(deployment_id__in=ids).exclude(node="")
    return {f"{PREFIX}{pk}" for pk in placed.values_list("deployment_id", flat=True)}


def uses_of(version_ids: Collection[str]) -> Iterable[catalog.Use]:
    """Deployments that need one of these versions: all but those that are removed."""
    rows = Deployment.objects.for_system().filter(version_id__in=list(version_ids)).exclude(phase=Phase.REMOVED)
    return [
        catalog.Use(
            str(row.version_id), "deployment", row.name, reverse("serving:detail", args=[row.pk]), row.tenant_id,
            str(phase_name(row.phase)),
        )
        for row in rows.order_by("-pk")
    ]  # fmt: skip


def blockers(placement: tenants.Placement) -> list[tenants.Blocker]:
    """What has to be removed before a tenant can be, from a cluster."""
    rows = Deployment.objects.for_system().filter(placement_id=placement.pk).exclude(phase=Phase.REMOVED)
    found = [(row.name, reverse("serving:detail", args=[row.pk])) for row in rows.order_by("-pk")[:50]]
    return [tenants.Blocker(_("The deployment {name} is still there.").format(name=name), url) for name, url in found]


def page_of(deployment_id: str) -> str:
    return reverse("serving:detail", args=[deployment_id])


def relatives_of(deployment_id: str) -> list[str]:
    """The model that it serves, as the audit log knows it."""
    rows = Deployment.objects.for_system().filter(pk=deployment_id).exclude(version=None)
    return [f"model:{pk}" for pk in rows.values_list("version__model_id", flat=True)]


def deployments_of_model(model_id: str) -> list[str]:
    """What serves a model, or did, as the audit log knows it."""
    rows = Deployment.objects.for_system().filter(version__model_id=model_id)
    return [f"{PREFIX}{pk}" for pk in rows.values_list("pk", flat=True)]
