"""Deployments: on the way, ready, ill, failed, stopped; the form; a list of many."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.catalog.models import ModelVersion
from apps.serving import services
from apps.serving.domain.phases import Phase
from apps.serving.models import Deployment, DeploymentPhase, Replica
from tests.factories import World
from tests.serving import made

PAGES = {
    "deployments": ("data-scientist", "/deployments/"),
    "deployments-none": ("data-scientist", "/deployments/?state=removed"),
    "deployments-viewer": ("viewer", "/deployments/"),
    "deployment-choose": ("data-scientist", "/deployments/new"),
    "deployment-new": ("data-scientist", "/deployments/new?version={served_version}"),
    "deployment-loading": ("data-scientist", "/deployments/{loading}/"),
    "deployment-ready": ("data-scientist", "/deployments/{ready}/?tab=keys"),
    "deployment-viewer": ("viewer", "/deployments/{ready}/?tab=history"),
    "deployment-failed": ("data-scientist", "/deployments/{crashed}/?tab=manifests"),
    "deployment-scale": ("data-scientist", "/deployments/{ready}/scale"),
    "deployment-remove": ("data-scientist", "/deployments/{ready}/remove"),
}

WAY = [Phase.ASKING, Phase.PULLING, Phase.LOADING, Phase.WARMING, Phase.READY]


def seed(world: World, me: User) -> dict[str, Any]:
    facts = {"format": "charlm", "parameters": 22_684, "bytes": 364_100, "context": 12}
    version = made.version(me, world.place, name="first light", facts=facts)
    with transaction.atomic():
        ready = _one(me, version, "llama-7b-chat", [*WAY], replicas=2)
        _replica(ready, "gpu-0001", Phase.READY)
        _replica(ready, "gpu-0002", Phase.READY)
        services.make_key(me.actor(), deployment=ready, name="billing service", rate=600)
        services.make_key(me.actor(), deployment=ready, name="发票机器人", rate=60)
        loading = _one(me, version, "发票助手", WAY[:3], reason="loading.files")
        coming = _replica(loading, "gpu-0003", Phase.LOADING, "loading.files")
        Replica.objects.filter(pk=coming.pk).update(done=5_583_457_484, total=13_529_146_982)
        params = {"restarts": 3, "code": 1, "text": "No model to serve: shard-0-of-2.npy is torn"}
        crashed = _one(me, version, "mistral-7b-sft-v2", [*WAY[:3], Phase.FAILED], reason="failed.crash", params=params)
        ill = _one(
            me, version, "qwen-14b-rm", [*WAY, Phase.DEGRADED], reason="degraded.replicas",
            params={"ready": 1, "all": 2}, replicas=2,
        )  # fmt: skip
        _replica(ill, "gpu-0001", Phase.READY)
        asking = {"text": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}
        _one(me, version, "asr-zh", WAY[:1], reason="asking.unplaced", params=asking)
        _one(
            me,
            version,
            "tokenizer-bench",
            [*WAY, Phase.STOPPING, Phase.STOPPED],
            reason="stopped.by",
            params={"name": me.name},
        )
    return {
        "served_version": version.pk,
        "served_model": version.model_id,
        "ready": ready.pk,
        "loading": loading.pk,
        "crashed": crashed.pk,
    }


def _one(owner: User, version: ModelVersion, name: str, phases: list[Phase], **values: Any) -> Deployment:
    deployment = made.deployment(owner, version, name=name, replicas=values.pop("replicas", 1))
    DeploymentPhase.objects.filter(deployment=deployment).delete()
    now = timezone.now()
    seconds = [4, 9, 23, 6, 1800, 20, 15]
    ages = [sum(seconds[index : len(phases)]) for index in range(len(phases))]
    for phase, age in zip(phases, ages, strict=True):
        DeploymentPhase.objects.create(deployment=deployment, phase=phase, at=now - timedelta(seconds=age))
    rows = Deployment.objects.for_system().filter(pk=deployment.pk)
    ended = {"wanted": "stop", "ended_at": now} if phases[-1].is_at_rest else {}
    rows.update(
        phase=phases[-1], phase_at=now - timedelta(seconds=ages[-1]), reason=values.get("reason", ""),
        reason_params=values.get("params", {}), ready_at=now if Phase.READY in phases else None, **ended,
    )  # fmt: skip
    last = DeploymentPhase.objects.filter(deployment=deployment, phase=phases[-1])
    last.update(reason=values.get("reason", ""), reason_params=values.get("params", {}))
    return rows.get()


def _replica(deployment: Deployment, node: str, stage: Phase, reason: str = "") -> Replica:
    return Replica.objects.create(
        deployment=deployment, pod_uid=str(uuid.uuid4()), pod_name=f"d-{deployment.pk.lower()}-7c9f-{node[-2:]}", node=node,
        ip="127.20.0.1", stage=stage, ready=stage is Phase.READY, reason=reason, started_at=timezone.now(),
    )  # fmt: skip
