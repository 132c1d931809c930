"""Clusters in every state: up, down, in maintenance, being checked, refused, with a credential that is nearly over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.clusters.domain.checks import ABSENT, FAILED, PASSED, WARNED, Check, Operator
from apps.clusters.models import Cluster, ClusterEntry, ClusterNode, ClusterSource
from tests.factories import World

OPERATOR = "platform-operator"
PAGES: dict[str, tuple[str, str]] = {
    "clusters": (OPERATOR, "/clusters/"),
    "clusters-scientist": ("data-scientist", "/clusters/"),
    "cluster": (OPERATOR, "/clusters/{cluster_up}/"),
    "cluster-scientist": ("data-scientist", "/clusters/{cluster_up}/"),
    "cluster-down": (OPERATOR, "/clusters/{cluster_down}/"),
    "cluster-maintenance": (OPERATOR, "/clusters/{cluster_closed}/"),
    "cluster-checking": (OPERATOR, "/clusters/{cluster_checking}/"),
    "cluster-refused": (OPERATOR, "/clusters/{cluster_refused}/"),
    "cluster-add": (OPERATOR, "/clusters/new"),
    "cluster-credential": (OPERATOR, "/clusters/{cluster_up}/credential"),
    "cluster-maintenance-form": (OPERATOR, "/clusters/{cluster_closed}/maintenance"),
    "cluster-profile": (OPERATOR, "/clusters/{cluster_up}/profile"),
    "cluster-source": (OPERATOR, "/clusters/{cluster_up}/sources/prometheus"),
    "cluster-source-loki": (OPERATOR, "/clusters/{cluster_up}/sources/loki"),
    "cluster-remove": (OPERATOR, "/clusters/{cluster_down}/remove"),
    "cluster-remove-occupied": (OPERATOR, "/clusters/train-a/remove"),
}

GOOD = [
    Check("token", PASSED, "until", {"date": "2027-11-30"}),
    Check("reach", PASSED, "version", {"version": "v1.36.1"}),
    Check("identity", PASSED, "known", {"account": "system:serviceaccount:maas-portal:portal"}),
    Check("same", PASSED, "same"),
    Check("rights", PASSED, "all", {"count": "61"}),
    Check("bounds", PASSED, "narrow"),
    Check("volcano", PASSED, "version", {"version": "1.15.1"}),
    Check("hypernodes", PASSED, "there"),
    Check("kuberay", PASSED, "version", {"version": "1.6.0"}),
    Check("mpi", ABSENT, "absent"),
    Check("istio", ABSENT, "absent"),
]
OPERATORS = [
    Operator("volcano", "volcano-scheduler", "volcano-system", 1, 1, "1.15.1"),
    Operator("volcano", "volcano-controllers", "volcano-system", 0, 1, "1.15.1"),
    Operator("kuberay", "kuberay-operator", "ray-system", 1, 1, "1.6.0"),
]
PROFILE: dict[str, Any] = {
    "fabric": "infiniband",
    "cni": "Calico, BGP",
    "pod_mtu": 1500,
    "scheduler": "volcano",
    "note": "Leaf pairs are HyperNodes of tier 1.",
    "planes": [
        {"name": "storage", "purpose": "storage", "gbit": 100, "mtu": 9000, "cidr": "10.0.2.0/24"},
        {"name": "ib0–ib7", "purpose": "compute", "gbit": 200, "mtu": 0, "cidr": ""},
    ],
    "pools": [{"name": "A800", "role": "training", "label": "pool=training"}],
}


def seed(world: World, me: User) -> dict[str, Any]:
    now = timezone.now()
    up = _cluster("train-b", "训练集群 B", profile=PROFILE, operators=[one.to_row() for one in OPERATORS],
                  expires_at=now + timedelta(days=9, hours=3), warned_days=14)  # fmt: skip
    for n in range(4):
        ClusterNode.objects.create(
            cluster=up, name=f"gpu-{n}", product="A800", resource="nvidia.com/gpu", total=8, used=n * 2, ready=True
        )
    ClusterSource.objects.create(
        cluster=up, kind="prometheus", url="https://prometheus.train-b.example", has_token=True, version="3.7.1",
        state=ClusterSource.State.READY, checked_at=now, read_at=now,
    )  # fmt: skip
    ClusterSource.objects.create(
        cluster=up, kind="prometheus", url="https://thanos.example/train-b", state=ClusterSource.State.FAILED,
        error="Prometheus did not accept the token (HTTP 401).", due_at=now + timedelta(days=1),
    )  # fmt: skip
    ClusterSource.objects.create(
        cluster=up, kind="loki", url="https://loki.train-b.example", version="3.5.7", org="train-b",
        state=ClusterSource.State.READY, checked_at=now, read_at=now,
    )  # fmt: skip
    _cluster(
        "inference-a", "Inference A", expires_at=now + timedelta(days=300), unreachable_since=now - timedelta(hours=2),
        unreachable_reason="The API server did not answer (ConnectTimeoutError): 10.0.0.9:6443 timed out",
    )  # fmt: skip
    _cluster(
        "data-c", "Data C", maintenance_since=now - timedelta(minutes=40),
        maintenance_until=now + timedelta(hours=5), maintenance_reason="Firmware of the leaf switches in hall 2.",
    )  # fmt: skip
    checking = _cluster(
        "train-new", "Train new", state=Cluster.State.NEW, checks=[], account="", seen_at=None, version=""
    )
    _entry(world, checking, ClusterEntry.State.CHECKING, GOOD[:4])
    refused = _cluster("train-old", "Train old", state=Cluster.State.NEW, checks=[], seen_at=None, version="")
    missing = {"rights": "jobs.batch.volcano.sh: create, delete, patch; queues.scheduling.volcano.sh: create, delete"}
    found = [*GOOD[:4], Check("rights", FAILED, "missing", missing), Check("bounds", WARNED, "secrets")]
    absent = Check("volcano", FAILED, "absent", {"apis": "batch.volcano.sh/v1alpha1"})
    _entry(world, refused, ClusterEntry.State.FAILED, [*found, absent])
    return {
        "cluster_up": "train-b",
        "cluster_down": "inference-a",
        "cluster_closed": "data-c",
        "cluster_checking": "train-new",
        "cluster_refused": "train-old",
    }


def _cluster(slug: str, name: str, **values: Any) -> Cluster:
    now = timezone.now()
    common: dict[str, Any] = {
        "server": f"https://{slug}.example:6443", "version": "v1.36.1", "seen_at": now, "checked_at": now,
        "account": "system:serviceaccount:maas-portal:portal", "checks": [one.to_row() for one in GOOD],
    }  # fmt: skip
    return Cluster.objects.create(slug=slug, name=name, **common | values)


def _entry(world: World, cluster: Cluster, state: str, checks: list[Check]) -> None:
    now = timezone.now()
    ClusterEntry.objects.create(
        cluster=cluster, server=cluster.server, state=state, checks=[one.to_row() for one in checks],
        entered_by=world.people[Role.OPERATOR], checked_at=now, due_at=now + timedelta(days=1),
    )  # fmt: skip
