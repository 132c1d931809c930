"""A small world to look at: one tenant in one cluster of one node, and one of each thing that the portal lists."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.accounts.models import Tenant, User
from apps.audit.models import Entry
from apps.catalog.models import Blob, StageChange, StoredFile
from apps.clusters.domain.queues import QueueSeen
from apps.clusters.models import Cluster
from apps.clusters.services.queues import NodeEventSeen, note_events, note_queues
from apps.clusters.services.seen import note_nodes
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobRank
from apps.notices.models import Notice
from apps.quotas import services as quotas
from apps.quotas.models import Allowance
from apps.secrets.models import Secret
from apps.serving import services as serving
from apps.serving.domain.phases import Phase as Stage
from apps.serving.models import Deployment, DeploymentPhase, Replica
from apps.tenants.models import Placement, TenantRequest
from tests import factories
from tests.clusters.fleet_made import LABELS, SIZES, node, pod
from tests.pages import session_of
from tests.serving import made

GPU = "nvidia.com/gpu"


@dataclass
class One:
    """Session cookies of the five people, and values for the `{names}` in addresses."""

    cookies: dict[str, str]
    names: dict[str, Any]


def one_of_each() -> One:
    now = timezone.now()
    tenant = Tenant.objects.create(slug="nlp", name="NLP")
    cluster = Cluster.objects.create(
        slug="train-a", name="Train A", server="http://127.0.0.1:1", version="v1.34.2", seen_at=now
    )
    place = Placement.objects.create(
        tenant=tenant, cluster=cluster, namespace="tenant-nlp", queue="tenant-nlp", state=Placement.State.READY,
        ready_at=now, looked_at=now,
    )  # fmt: skip
    Allowance.objects.create(tenant=tenant, cluster=cluster.slug, resource=GPU, base=1)
    people = {role: factories.user(role.value, role, tenant) for role in Role}
    me = people[Role.SCIENTIST]
    with transaction.atomic():
        names = {"job": _job(me, place, now).pk, **_model(me, place, now), **_asked(people, cluster)}
        _told(me, tenant, place)
        _node(cluster, now)
    return One({role.value: _cookie(user) for role, user in people.items()}, names)


def _cookie(user: User) -> str:
    client = Client()
    session_of(client, user)
    return str(client.session.session_key)


def _job(me: User, place: Placement, now: Any) -> Job:
    quotas.take(place.tenant_id, quotas.Pool(place.cluster.slug, GPU), 1, "job:one")
    began = now - timedelta(minutes=1)
    job = factories.job(
        me, place, document={"name": "first light", "ranks": 1}, phase=Phase.RUNNING, running_at=began, due_at=None
    )
    JobRank.objects.create(
        job=job, pod_uid=str(uuid.uuid4()), pod_name=f"j-{job.pk.lower()}-master-0", attempt=1, rank=0, node="gpu-0001",
        phase="Running", started_at=began,
    )  # fmt: skip
    factories.draft(me, place.tenant)
    return job


def _model(me: User, place: Placement, now: Any) -> dict[str, Any]:
    version = made.version(me, place, name="harbour", stage="candidate")
    type(version.model).objects.filter(pk=version.model_id).update(stage="candidate", weight_bytes=2, parameters=1)
    StageChange.objects.create(version=version, old="draft", new="candidate", by=me)
    Blob.objects.create(pk="f" * 64, size=1)
    StoredFile.objects.create(version=version, path="shard-0-of-1.npy", digest="f" * 64, size=1)
    deployment = Deployment.objects.create(
        tenant=place.tenant, owner=me, placement=place, version=version, name="chat", slug="chat", model="harbour",
        model_version=1, engine="charlm", shape="1-small", replicas=1, held=0, phase=Stage.READY, ready_at=now, due_at=None,
    )  # fmt: skip
    DeploymentPhase.objects.create(deployment=deployment, phase=Stage.READY, at=now)
    Replica.objects.create(
        deployment=deployment, pod_uid=str(uuid.uuid4()), pod_name="d-chat-7c9f-1", node="gpu-0001", ip="127.20.0.1",
        stage=Stage.READY, ready=True, started_at=now,
    )  # fmt: skip
    serving.make_key(me.actor(), deployment=deployment, name="ci", rate=1)
    return {"model": version.model_id, "version": version.pk, "deployment": deployment.pk}


def _asked(people: dict[Role, User], cluster: Cluster) -> dict[str, Any]:
    now, admin = timezone.now(), people[Role.TEAM_ADMIN]
    terms = quotas.Terms({quotas.Pool(cluster.slug, GPU): 1}, now, now + timedelta(days=1))
    tenant = Tenant.objects.get()
    wish = quotas.ask(people[Role.SCIENTIST].actor(), wish=quotas.Ask(tenant.pk, terms, "One more."))
    asked = TenantRequest.objects.create(
        slug="speech", name="Speech", cluster=cluster, gpus=1, reason="One person begins.", asked_by=admin
    )
    return {"wish": wish.pk, "asked": asked.pk}


def _told(me: User, tenant: Tenant, place: Placement) -> None:
    """One secret, one token, and of what was told and recorded on the way one line each."""
    secret = {"keys": ["token"], "version": 1, "created_by": me, "changed_by": me}
    Secret.objects.create(tenant=tenant, name="hf-token", **secret)
    accounts.create_token(me.actor(), name="ci", days=7, read_only=False)
    Notice.objects.for_system().filter(user=me).delete()
    params = {"name": "first light", "by": "Lars Lindqvist"}
    Notice.objects.create(user=me, tenant=tenant, kind="job.stopped", link="/jobs/", digest="0", params=params)
    Entry.objects.create(
        action="job.submitted", result="done", actor=me.actor().id, tenant_id=tenant.pk, target="job:one",
        params={"name": "first light", "gpus": 1},
    )  # fmt: skip


def _node(cluster: Cluster, now: Any) -> None:
    one = {**SIZES, GPU: "1"}
    labels = LABELS | {"nvidia.com/gpu.count": "1"}
    pods = [pod("tenant-nlp", "j-one-0", 1)]
    seen = node("gpu-0001", pods, "L01", labels=labels, capacity=one, allocatable=one)
    note_nodes(cluster.pk, [seen])
    note_queues(cluster.pk, [QueueSeen("tenant-nlp", "root", "Open", deserved={GPU: 1}, allocated={GPU: 1})])
    note_events(cluster.pk, [NodeEventSeen("gpu-0001", "Rebooted", "Node gpu-0001 has been rebooted", True, now)])
