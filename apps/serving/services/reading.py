"""What pages, REST and the gateway are shown of deployments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from apps.accounts.types import Actor
from apps.clusters.services.registry import Link
from apps.serving.domain import manifests
from apps.serving.domain.phases import STARTING, Phase
from apps.serving.models import Deployment, DeploymentPhase, Replica


def plan_of(deployment: Deployment) -> manifests.Plan:
    """All that the deployment's objects are made of."""
    placement = deployment.placement
    return manifests.Plan(
        deployment_id=deployment.pk,
        name=deployment.name,
        model=deployment.model,
        engine=deployment.by,
        shape=deployment.size,
        facts=deployment.facts,
        replicas=deployment.replicas,
        place=manifests.Place(placement.namespace, placement.queue, placement.tenant.slug, placement.accelerator),
    )


def manifests_of(deployment: Deployment) -> list[dict[str, Any]]:
    """Exactly what the cluster is sent, but for the Secret with the token for the model's files."""
    return manifests.manifests(plan_of(deployment))


def moves_of(deployment: Deployment) -> QuerySet[DeploymentPhase]:
    """Every move of a deployment, in any order."""
    return DeploymentPhase.objects.filter(deployment=deployment)


def history_of(deployment: Deployment) -> list[DeploymentPhase]:
    """Every move of a deployment, oldest first."""
    return list(moves_of(deployment).order_by("id"))


def replicas_of(deployment: Deployment) -> list[Replica]:
    """Its pods as last seen."""
    return list(Replica.objects.filter(deployment=deployment).order_by("pod_name"))


def ready_counts(deployments: Iterable[Deployment]) -> dict[str, int]:
    """How many replicas of each are ready, in one query."""
    counts: dict[str, int] = defaultdict(int)
    ids = [deployment.pk for deployment in deployments]
    for pk in Replica.objects.filter(deployment_id__in=ids, ready=True).values_list("deployment_id", flat=True):
        counts[pk] += 1
    return counts


@dataclass(frozen=True)
class Step:
    """One stretch of the way to ready. `state` is "done", "now", "broken" or "ahead"; `took` is how long it lasted, or
    lasts so far; `percent` is known while files come."""

    phase: Phase
    state: str
    took: timedelta | None = None
    percent: int | None = None

    @property
    def width(self) -> int:
        return 100 if self.state in ("done", "broken") else (self.percent or 0)


def steps_of(deployment: Deployment, history: list[DeploymentPhase], replicas: list[Replica]) -> list[Step]:
    """The way to ready since it was last asked for."""
    order = (*STARTING, Phase.READY)
    begun = max((i for i, row in enumerate(history) if row.phase == Phase.ASKING), default=0)
    since = history[begun:]
    spent = _spent(since, deployment)
    here = deployment.state
    place = order.index(here) if here in order else len(order) if here in (Phase.DEGRADED, Phase.SCALING) else None
    if place is None:  # it has ended: what it reached
        reached = [order.index(Phase(row.phase)) for row in since if Phase(row.phase) in order]
        place = max(reached, default=0)
    steps = []
    for index, phase in enumerate(order):
        done = index < place or (here is Phase.READY and index == place)
        state = "done" if done else "now" if index == place and here in STARTING else "ahead"
        state = "broken" if here is Phase.FAILED and index == place else state
        percent = _percent(replicas) if state == "now" and phase is Phase.LOADING else None
        took = spent.get(phase) if phase is not Phase.READY else None
        steps.append(Step(phase, state, took, percent))
    return steps


def _spent(since: list[DeploymentPhase], deployment: Deployment) -> dict[Phase, timedelta]:
    """How long each phase lasted in all."""
    ends: list[datetime] = [row.at for row in since[1:]] + [deployment.ended_at or timezone.now()]
    spent: dict[Phase, timedelta] = defaultdict(timedelta)
    for row, end in zip(since, ends, strict=True):
        spent[Phase(row.phase)] += max(end - row.at, timedelta())
    return spent


def _percent(replicas: list[Replica]) -> int | None:
    known = [replica.percent for replica in replicas if replica.percent is not None]
    return max(known, default=None)


def address_of(deployment: Deployment, base: str) -> str:
    """Where programs reach it, ending in /v1; `base` is the gateway's address."""
    return f"{base.rstrip('/')}{prefix_of(deployment)}/v1"


def prefix_of(deployment: Deployment) -> str:
    """The path under which the gateway has it."""
    return f"/{deployment.placement.tenant.slug}/{deployment.slug}"


def links(actor: Actor, deployment_ids: set[str]) -> dict[str, Link]:
    """Name and page of those of some deployments that this person may see."""
    seen = Deployment.objects.visible_to(actor).filter(pk__in=deployment_ids).values_list("pk", "name")
    return {pk: Link(name, reverse("serving:detail", args=[pk])) for pk, name in seen}
