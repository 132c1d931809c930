"""Fleets for tests and page pictures, written as the watch process writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.clusters.domain.accelerators import Catalogue
from apps.clusters.domain.nodes import Condition, Raw, RawPod, SeenNode, Taint, see
from apps.clusters.models import Cluster
from apps.clusters.services.catalogue import _shipped
from apps.clusters.services.seen import note_nodes

CATALOGUE = Catalogue(*_shipped())
SINCE = "2026-11-26T09:00:00Z"
READY = Condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", SINCE)
PRESSURE = Condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "", SINCE)
VERSIONS = {"kubelet": "v1.34.2", "runtime": "containerd://2.1.4", "kernel": "5.15.0-139", "os": "Ubuntu 22.04.5 LTS"}
LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A800-SXM4-80GB", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920",
    "nvidia.com/cuda.driver-version.full": "550.127.05", "node-role": "train",
}  # fmt: skip
SIZES = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8", "rdma/hca": "8"}


def node(name: str, pods: list[RawPod] | None = None, fabric: str = "", **values: Any) -> SeenNode:
    fields: dict[str, Any] = {
        "labels": LABELS, "capacity": SIZES, "allocatable": SIZES, "conditions": (READY, PRESSURE),
        "versions": VERSIONS, "address": "10.1.0.7", **values,
    }  # fmt: skip
    return see(Raw(name, **fields), pods or [], CATALOGUE).within(fabric)


def pod(namespace: str, name: str, gpus: int, label: str = "", row: str = "") -> RawPod:
    return RawPod(namespace, name, {"cpu": gpus * 8000, "memory": gpus << 36, "nvidia.com/gpu": gpus}, label, row)


def ill(kind: str) -> dict[str, Any]:
    """What makes a node so."""
    kinds: dict[str, dict[str, Any]] = {
        "silent": {"conditions": (Condition("Ready", "Unknown", "NodeStatusUnknown", "", SINCE),)},
        "condition": {"conditions": (READY, Condition("XidErrors", "True", "Xid79", "GPU 5 fell off the bus", SINCE))},
        "devices": {"allocatable": {**SIZES, "nvidia.com/gpu": "7"}},
        "cordoned": {"cordoned": True, "taints": (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)},
        "tainted": {"taints": (Taint("reserved", "vision", "NoSchedule"),)},
    }
    return kinds[kind]


def many(cluster: Cluster, number: int, used: Callable[[int], int], namespace: str = "tenant-nlp") -> None:
    """`number` nodes by leaf pairs of eight, `used(n)` accelerators of each held by one pod."""
    made = []
    for n in range(number):
        pods = [pod(namespace, f"p-{n}", used(n))] if used(n) else []
        made.append(node(f"gpu-{n:04d}", pods, f"leaf-{n // 8:03d}"))
    note_nodes(cluster.pk, made)
