"""The largest gang the portal names is the largest one that the scheduler places."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.clusters.domain.accelerators import Catalogue
from apps.clusters.domain.capacity import Need, NodeSpace, by_pool, capacity_of, largest_gang, pieces, places
from apps.clusters.services.catalogue import _shipped
from apps.clusters.watch.nodes import Inventory
from apps.clusters.watch.projections import NODES, PODS
from apps.localcluster.volcano.scheduler import session
from apps.localcluster.volcano.scheduler.model import Snapshot
from tests.localcluster.volcano_cases import open_queue
from tests.localcluster.volcano_random import CLASSES, SETTINGS

GPU, PRODUCT, ROLE = "nvidia.com/gpu", "nvidia.com/gpu.product", "node-role"
Object = dict[str, Any]
CATALOGUE = Catalogue(*_shipped())


def node(number: int, wish: Object) -> Object:
    taints = [{"key": "reserved", "value": "vip", "effect": wish["taint"]}] if wish["taint"] else []
    sizes = {GPU: str(wish["gpus"]), "cpu": wish["cpu"], "memory": wish["memory"], "pods": wish["pods"]}
    labels = {PRODUCT: wish["product"], ROLE: wish["role"]}
    return {
        "metadata": {"name": f"n-{number}", "uid": f"n-{number}", "resourceVersion": "1", "labels": labels},
        "spec": {"unschedulable": wish["cordoned"], "taints": taints},
        "status": {
            "capacity": sizes,
            "allocatable": {**sizes, GPU: str(wish["offered"] if wish["offered"] is not None else wish["gpus"])},
            "conditions": [{"type": "Ready", "status": wish["ready"]}],
        },
    }


def pod(name: str, asks: dict[str, str], where: str = "", selector: dict[str, str] | None = None) -> Object:
    return {
        "metadata": {
            "name": name, "namespace": "team-a", "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T01:00:00Z",
            "annotations": {"scheduling.k8s.io/group-name": "gang", "volcano.sh/task-spec": "r"} if not where else {},
        },
        "spec": {
            "schedulerName": "volcano", "nodeSelector": selector or {},
            "containers": [{"name": "main", "resources": {"requests": asks}}], **({"nodeName": where} if where else {}),
        },
        "status": {"phase": "Running" if where else "Pending"},
    }  # fmt: skip


WISHES = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([8, 8, 8, 4, 0]),
        "offered": st.sampled_from([None, None, None, 3]),
        "cpu": st.sampled_from(["64", "16", "4500m"]),
        "memory": st.sampled_from(["1Ti", "64Gi", "100M"]),
        "pods": st.sampled_from(["16", "16", "3"]),
        "product": st.sampled_from(["NVIDIA-A800-SXM4-80GB", "NVIDIA-A800-SXM4-80GB", "NVIDIA-A10"]),
        "role": st.sampled_from(["train", "train", "infer"]),
        "taint": st.sampled_from(["", "", "", "", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
        "cordoned": st.sampled_from([False, False, False, True]),
        "ready": st.sampled_from(["True", "True", "True", "True", "Unknown", "False"]),
        "held": st.lists(st.tuples(st.sampled_from([1, 2, 4, 0]), st.sampled_from(["500m", "2"])), max_size=3),
    }
)
ASKS = st.tuples(
    st.sampled_from([8, 4, 2, 1, 3]),
    st.sampled_from(["500m", "1", "8"]),
    st.sampled_from(["64Mi", "20Gi"]),
)


def fleet(wishes: list[Object]) -> tuple[list[Object], list[Object]]:
    nodes = [node(number, wish) for number, wish in enumerate(wishes)]
    held = [
        pod(f"h-{number}-{index}", {GPU: str(gpus), "cpu": cpu, "memory": "1Mi"}, f"n-{number}")
        for number, wish in enumerate(wishes)
        for index, (gpus, cpu) in enumerate(wish["held"])
    ]
    return nodes, held


def placed(nodes: list[Object], held: list[Object], asks: dict[str, str], group: tuple[str, str], size: int) -> int:
    """How many pods of a gang of `size` the scheduler places in one session."""
    role, product = group
    gang = [pod(f"g-{n}", asks, selector={ROLE: role, PRODUCT: product}) for n in range(size)]
    item: Object = {
        "metadata": {
            "name": "gang", "namespace": "team-a", "uid": "gang", "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"queue": "default", "minMember": size, "minTaskMember": {"r": size}},
        "status": {"phase": "Inqueue"},
    }  # fmt: skip
    queues = [open_queue(), open_queue("root")]
    snapshot = Snapshot(nodes, [*held, *gang], [item], queues, {}, [], CLASSES)
    return len(session.run(snapshot, SETTINGS["testbed+overcommit-10"]).bindings)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WISHES, min_size=1, max_size=8), ASKS)
def test_the_largest_gang_is_placed_and_one_pod_more_is_not(wishes: list[Object], ask: tuple[int, str, str]) -> None:
    nodes, held = fleet(wishes)
    read = Inventory(1).read(
        [NODES.decode(json.dumps(one)) for one in nodes], [PODS.decode(json.dumps(one)) for one in held], CATALOGUE
    )
    spaces = [seen.space for seen in read]
    gpus, cpu, memory = ask
    need = Need(gpus, {"500m": 500, "1": 1000, "8": 8000}[cpu], {"64Mi": 64 << 20, "20Gi": 20 << 30}[memory])
    most = largest_gang(spaces, need)
    asks = {GPU: str(gpus), "cpu": cpu, "memory": memory}
    groups = {(wish["role"], wish["product"]) for wish in wishes}
    assert max(placed(nodes, held, asks, group, most) for group in groups) == most
    assert all(placed(nodes, held, asks, group, most + 1) == 0 for group in groups)


def space(name: str, used: int = 0, **values: Any) -> NodeSpace:
    return NodeSpace(name, "A800", "r", 8, used, True, True, **values)


def test_what_is_counted_bounds_the_pods_of_a_node_and_what_is_not_does_not() -> None:
    assert places(space("a"), Need(2, 1000, 1 << 30)) == 4
    assert places(space("a", free_cpu=2500, free_memory=1 << 40, free_pods=9), Need(2, 1000)) == 2
    assert places(space("a", free_pods=1), Need(1)) == 1
    with pytest.raises(ValueError, match="at least one"):
        places(space("a"), Need(0))


def test_a_gang_keeps_to_one_pool_and_pools_are_counted_apart() -> None:
    nodes = [space("a", pool="train"), space("b", pool="train"), space("c", pool="infer")]
    assert largest_gang(nodes, Need(8)) == 2
    assert {pool: capacity.total for pool, capacity in by_pool(nodes).items()} == {"infer": 8, "train": 16}


def test_pieces_are_told_of_those_who_hold_the_most_there() -> None:
    nodes = [
        (space("a", 4), {"vision": 4}), (space("b", 6), {"vision": 2, "nlp": 4}), (space("c", 8), {"nlp": 8}),
        (space("d"), {}), (space("e", 1, tainted=True), {"nlp": 1}),
    ]  # fmt: skip
    assert [(p.namespace, p.nodes, p.free) for p in pieces(nodes)] == [("vision", 1, 4), ("nlp", 1, 2)]
    capacity = capacity_of(node for node, _held in nodes)
    assert (capacity.free, capacity.free_whole, capacity.in_pieces, capacity.unusable) == (14, 8, 6, 8)
    assert round(capacity.fragmentation, 2) == 0.43
