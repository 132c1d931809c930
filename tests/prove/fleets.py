"""Five clusters' nodes, of several makers, and what holds part of them: put in by plain Kubernetes API."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deploy.testbed import kwok
from deploy.testbed.api import Api

WORKERS = 8
NAMESPACE = "research"
GPU, ASCEND, AMD, MIG, VGPU = (
    "nvidia.com/gpu",
    "huawei.com/Ascend910",
    "amd.com/gpu",
    "nvidia.com/mig-1g.10gb",
    "volcano.sh/vgpu-number",
)
Object = dict[str, Any]
HELD = (8, 8, 0, 4, 8, 0, 0, 2)
"""What a node's pod asks for, in turn, at most all that the node has; with 0 there is none."""
EMPTY_FROM = 64
"""Of a pool's nodes so many are held from the first on; most of a large cluster is idle."""


def _pool(prefix: str, count: int, labels: dict[str, str], devices: dict[str, int]) -> Object:
    capacity = {"cpu": "128", "memory": "1Ti", "pods": "110"} | {name: str(n) for name, n in devices.items()}
    return {"prefix": prefix, "count": count, "labels": labels, "capacity": capacity}


def _nvidia(role: str, product: str, count: int, mebibytes: int) -> dict[str, str]:
    told = {"product": product, "count": str(count), "memory": str(mebibytes)}
    return {"node-role": role, **{f"nvidia.com/gpu.{name}": text for name, text in told.items()}}


A800 = _nvidia("train", "NVIDIA-A800-SXM4-80GB", 8, 81920)
H20 = _nvidia("train", "NVIDIA-H20", 8, 97871)
A10 = _nvidia("infer", "NVIDIA-A10", 4, 23028)
A100 = _nvidia("infer", "NVIDIA-A100-SXM4-80GB", 7, 81920)
NPU = {"node-role": "train", "accelerator": "huawei-Ascend910", "node.kubernetes.io/npu.chip.name": "910B"}
MI300X = {"node-role": "train", "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}


def large(nodes: int) -> list[Object]:
    """A cluster of so many nodes: half for training, the rest for inference, of another maker, or without any."""
    a800, h20, a10, npu = (nodes * percent // 100 for percent in (52, 16, 18, 8))
    return [
        _pool("a800", a800, A800, {GPU: 8, "rdma/hca": 8}),
        _pool("h20", h20, H20, {GPU: 8, "rdma/hca": 8}),
        _pool("a10", a10, A10, {GPU: 4}),
        _pool("npu", npu, NPU, {ASCEND: 8}),
        _pool("cpu", nodes - a800 - h20 - a10 - npu, {"node-role": "cpu"}, {}),
    ]


SMALL: dict[str, list[Object]] = {
    "ascend": [_pool("atlas", 24, NPU, {ASCEND: 8})],
    "instinct": [_pool("mi300x", 16, MI300X, {AMD: 8})],
    "shared": [_pool("mig", 6, A100, {MIG: 7}), _pool("vgpu", 10, A10, {VGPU: 40, "volcano.sh/vgpu-memory": 92112})],
}
"""Whole devices of two other makers, slices and shares; the fifth is the demo's own."""


def leaves(pool: Object) -> list[Object]:
    """HyperNodes of a pool's nodes, eight to each."""
    return [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": f"{pool['prefix']}-leaf-{first // 8 + 1:03d}"},
            "spec": {
                "tier": 1,
                "members": [
                    {"type": "Node", "selector": {"exactMatch": {"name": f"{pool['prefix']}-{number:04d}"}}}
                    for number in range(first, min(first + 8, pool["count"]))
                ],
            },
        }
        for first in range(0, pool["count"], 8)
    ]


def pods(pool: Object) -> list[Object]:
    """Pods on the first nodes of a pool, for the first of its accelerators."""
    resource = next((name for name in pool["capacity"] if "/" in name), "")
    held = range(min(pool["count"], EMPTY_FROM) if resource else 0)
    most = int(pool["capacity"].get(resource, 0))
    return [
        _pod(f"{pool['prefix']}-{number:04d}", resource, amount)
        for number in held
        if (amount := min(HELD[number % len(HELD)], most))
    ]


def _pod(node: str, resource: str, amount: int) -> Object:
    asks = {"cpu": "8", "memory": "64Gi", resource: str(amount)}
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": asks, "limits": asks}}
    tolerates = [{"operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{node}", "namespace": NAMESPACE},
        "spec": {"nodeName": node, "containers": [container], "tolerations": tolerates},
    }


def queue(name: str, parent: str, deserved: Object) -> Object:
    spec = {"weight": 1, "reclaimable": True, "parent": parent, "deserved": deserved}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {key: value for key, value in spec.items() if value},
    }


def fill(api: Api, pools: Iterable[Object], folder: Path, *, played: bool = False) -> None:
    """Put nodes, HyperNodes, queues and pods in; with `played` the nodes are there already. Raises Failed."""
    pools = list(pools)
    fleet = folder / "fleet.json"
    fleet.write_text(json.dumps(pools))
    first: list[tuple[str, Object]] = []
    states: list[tuple[str, Object]] = []
    for node in [] if played else kwok.nodes(fleet):
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        first.append((path, node))
        states.append((f"{path}/status", {key: value for key, value in node.items() if key != "spec"}))
        states.append((path, node | {"spec": {"taints": []}}))  # a node that no kubelet has greeted is kept back
    place = f"/api/v1/namespaces/{NAMESPACE}"
    api.apply(place, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.apply(f"{place}/serviceaccounts/default", account)  # where no controller makes it
    queues = "/apis/scheduling.volcano.sh/v1beta1/queues"
    total = {name: str(64 * int(n)) for pool in pools for name, n in pool["capacity"].items() if "/" in name}
    first += [(f"{queues}/{name}", queue(name, "root", total)) for name in ("training", "serving")]
    for pool in pools:
        for leaf in leaves(pool):
            first.append((f"/apis/topology.volcano.sh/v1alpha1/hypernodes/{leaf['metadata']['name']}", leaf))
    then = [(f"{place}/pods/{pod['metadata']['name']}", pod) for pool in pools for pod in pods(pool)]
    with ThreadPoolExecutor(WORKERS) as workers:
        for some in (first, [*states, *then]):
            list(workers.map(lambda one: api.apply(*one), some))
