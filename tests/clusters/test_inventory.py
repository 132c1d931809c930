"""What is read of nodes, and what the catalogue makes of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from apps.clusters.domain import nodes as domain
from apps.clusters.domain.accelerators import Wrong, read
from apps.clusters.domain.nodes import Condition, Problem, Raw, RawPod, Taint, see
from apps.clusters.domain.quantity import LIMIT, thousandths, whole
from apps.clusters.services.catalogue import SHIPPED, _shipped
from apps.clusters.watch.nodes import raw_pod
from apps.clusters.watch.projections import PODS

ROOT = Path(__file__).parents[2]
ENTRIES, DEFAULT = _shipped()
CATALOGUE = domain.Catalogue(ENTRIES, DEFAULT)
READY = (Condition("Ready", "True"),)


def raw(capacity: dict[str, str], allocatable: dict[str, str] | None = None, **values: Any) -> Raw:
    fields = {"labels": {}, "conditions": READY, **values}
    return Raw("n-1", capacity=capacity, allocatable=capacity if allocatable is None else allocatable, **fields)


@pytest.mark.parametrize(
    ("resource", "labels", "slug"),
    [
        ("huawei.com/Ascend910", {}, "ascend-910"),
        ("huawei.com/Ascend910", {"node.kubernetes.io/npu.chip.name": "910B4"}, "ascend-910b4"),
        ("huawei.com/Ascend910B4", {}, "ascend-910b4"),
        ("huawei.com/Ascend910B3", {}, "ascend-910b"),
        ("huawei.com/Ascend310P", {}, "ascend-310p"),
        ("huawei.com/Ascend310", {}, "ascend-310"),
        ("acme.example/npu", {}, "other-npu"),
        ("rdma/hca", {}, ""),
    ],
)
def test_hami_webui_124_every_ascend_and_unknown_vendors_are_recognised(
    resource: str, labels: dict[str, str], slug: str
) -> None:
    """Project-HAMi/HAMi-WebUI#124: Ascend910B4 was in no list, so its nodes had nothing."""
    seen = see(raw({resource: "8"}, labels=labels), [], CATALOGUE).space
    assert (seen.accelerator, seen.resource, seen.total) == (slug, resource if slug else "", 8 if slug else 0)


@pytest.mark.parametrize(
    ("product", "slug", "gib"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100-80", 80),
        ("NVIDIA-A800-SXM4-80GB", "a800", 80),
        ("Tesla V100-PCIE-32GB", "v100-32-pcie", 32),
        ("Tesla-V100-PCIE-32GB", "v100-32-pcie", 32),
        ("NVIDIA-H100-80GB-HBM3", "h100", 80),
        ("NVIDIA-NEXT-YEAR", "nvidia", None),
    ],
)
def test_determined_7724_products_are_known_however_their_spaces_are_written(
    product: str, slug: str, gib: int | None
) -> None:
    """determined-ai/determined#7724: a name the list did not expect was no GPU at all."""
    labels = {"nvidia.com/gpu.product": product}
    seen = see(raw({"nvidia.com/gpu": "8"}, labels=labels), [], CATALOGUE).space
    assert (seen.accelerator, seen.total) == (slug, 8)
    assert seen.device_memory == (gib << 30 if gib else None)


def test_hami_webui_5_a_node_counts_by_what_it_offers_whatever_its_labels_are() -> None:
    """Project-HAMi/HAMi-WebUI#5: nodes without the label `gpu=on` were not shown."""
    for labels in ({}, {"gpu": "off"}, {"gpu": "on"}):
        seen = see(raw({"nvidia.com/gpu": "8"}, labels=labels), [], CATALOGUE).space
        assert (seen.total, seen.free) == (8, 8)


def test_crater_444_memory_and_time_of_a_gpu_are_no_accelerators() -> None:
    """raids-lab/crater#444: a share is asked for by memory; its mebibytes must not be counted as GPUs."""
    capacity = {"volcano.sh/vgpu-number": "80", "volcano.sh/vgpu-memory": "1000000", "volcano.sh/vgpu-cores": "800"}
    seen = see(raw(capacity), [], CATALOGUE)
    assert (seen.space.resource, seen.space.total) == ("volcano.sh/vgpu-number", 80)
    assert set(seen.facts["resources"]) >= set(capacity)


def test_whole_devices_count_before_slices_and_what_is_left_is_kept() -> None:
    capacity = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"}
    assert see(raw(capacity), [], CATALOGUE).space.resource == "nvidia.com/gpu"
    seen = see(raw({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "28"}), [], CATALOGUE).space
    assert (seen.resource, seen.total, seen.device_memory) == ("nvidia.com/mig-1g.10gb", 28, 10 * 10**9)


def test_what_the_node_tells_of_its_memory_is_believed_before_the_catalogue() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A10", "nvidia.com/gpu.memory": "23028"}
    assert see(raw({"nvidia.com/gpu": "4"}, labels=labels), [], CATALOGUE).space.device_memory == 23028 << 20


@pytest.mark.parametrize(
    ("slug", "one_way", "pair"),
    [
        ("a800", 200, 200),
        ("a100-80", 300, 300),
        ("h100", 450, 450),
        ("ascend-910b", 196, 28),
        ("a10", 31.5, 31.5),
        ("t4", 15.75, 15.75),
        ("h100-pcie", 63, 63),
    ],
)
def test_rates_are_gigabytes_a_second_in_one_direction(slug: str, one_way: float, pair: float) -> None:
    """Makers add both directions up, print bits, or forget that a mesh divides what one card has."""
    link = next(entry.link for entry in ENTRIES if entry.slug == slug)
    assert link is not None
    assert (link.one_way, link.pair) == (one_way, pair)


def test_a_dead_device_plugin_shows_as_physical_against_offered() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A800-SXM4-80GB", "nvidia.com/gpu.count": "8"}
    seen = see(raw({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "7"}, labels=labels), [], CATALOGUE)
    assert (seen.space.physical, seen.space.total, seen.problem) == (8, 7, Problem.DEVICES)
    gone = see(raw({"nvidia.com/gpu": "0"}, labels=labels), [], CATALOGUE)
    assert (gone.space.physical, gone.space.total) == (0, 0)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"conditions": ()}, Problem.SILENT),
        ({"conditions": (Condition("Ready", "Unknown"),)}, Problem.SILENT),
        ({"conditions": (Condition("Ready", "False"),), "cordoned": True}, Problem.NOT_READY),
        ({"conditions": (*READY, Condition("DiskPressure", "True"))}, Problem.CONDITION),
        ({"conditions": (*READY, Condition("KernelDeadlock", "False"))}, ""),
        ({"conditions": (*READY, Condition("GpuHealthy", "False"))}, Problem.CONDITION),
        ({"cordoned": True}, Problem.CORDONED),
        ({"taints": (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)}, ""),
        ({"taints": (Taint("reserved", "vip", "NoSchedule"),)}, Problem.TAINTED),
        ({"taints": (Taint("slow", "", "PreferNoSchedule"),)}, ""),
        ({"labels": {"nvidia.com/cuda.driver-version.full": "470.82.01"}}, Problem.OLD_DRIVER),
    ],
)
def test_the_worst_of_a_node_is_named(values: dict[str, Any], problem: str) -> None:
    assert see(raw({"nvidia.com/gpu": "8"}, **values), [], CATALOGUE).problem == problem


@pytest.mark.parametrize(
    ("kubelet", "server", "word"),
    [
        ("v1.33.0", "v1.36.1", ""),
        ("v1.32.9", "v1.36.1", "old"),
        ("v1.36.4", "v1.36.1", ""),
        ("v1.37.0", "v1.36.1", "ahead"),
        ("", "v1.36.1", ""),
    ],
)
def test_kubelets_may_lag_three_minor_versions(kubelet: str, server: str, word: str) -> None:
    assert domain.kubelet_lag(kubelet, server) == word


def test_a_pod_holds_what_its_hungriest_moment_needs() -> None:
    pod = PODS.decode(
        b"""{"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {
        "initContainers": [
          {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
          {"name": "fetch", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}],
        "containers": [
          {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}},
          {"name": "b", "resources": {"requests": {"nvidia.com/gpu": 1}}}]}}"""
    )
    assert raw_pod(pod).asks == {"cpu": 4500, "memory": 1 << 30, "nvidia.com/gpu": 3}


def test_what_pods_hold_is_left_out_of_what_is_free() -> None:
    pods = [RawPod("team-a", "p-1", {"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 3}, "job", "J1")]
    seen = see(raw({"nvidia.com/gpu": "8", "cpu": "2", "memory": "4Gi", "pods": "10"}), pods, CATALOGUE)
    space = seen.space
    assert (space.used, space.free, space.free_cpu, space.free_memory, space.free_pods) == (3, 5, 500, 3 << 30, 9)
    assert seen.held == [{"namespace": "team-a", "pod": "p-1", "amount": 3, "label": "job", "row": "J1"}]


def test_equal_nodes_have_equal_digests_and_others_do_not() -> None:
    one, same = (see(raw({"nvidia.com/gpu": "8"}), [], CATALOGUE) for _ in range(2))
    other = see(raw({"nvidia.com/gpu": "8"}, cordoned=True), [], CATALOGUE)
    assert one.digest == same.digest != other.digest
    assert one.within("leaf-1").digest != one.digest


@pytest.mark.parametrize(
    ("text", "number"),
    [("1500m", 1500), ("1.5", 1500), ("128", 128000), ("1e3", 1_000_000), ("1e400", LIMIT), ("-1", 0), ("x", 0)],
)
def test_quantities_are_read_exactly_and_bounded(text: str, number: int) -> None:
    assert thousandths(text) == number


def test_bytes_are_whole() -> None:
    assert (whole("1Ti"), whole("1500M"), whole("100m")) == (1 << 40, 1_500_000_000, 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"resources": ["a.b/c"], "counts": "device"}, "name"),
        ({"name": "X", "resources": ["gpu"], "counts": "device"}, "resources"),
        ({"name": "X", "resources": [], "counts": "device"}, "resources"),
        ({"name": "X", "resources": ["a.b/c"], "counts": "much"}, "counts"),
        ({"name": "X", "resources": ["a.b/c"], "counts": "device", "memory": "80"}, "memory"),
        ({"name": "X", "resources": ["a.b/c"], "counts": "device", "link": {"name": "L"}}, "link"),
        ({"name": "X", "resources": ["a.b/c"], "counts": "device", "colour": "red"}, "colour"),
        ({"name": "X", "resources": [7], "counts": "device"}, "resources"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_by_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(Wrong) as wrong:
        read("x", body)
    assert wrong.value.field == field


def test_no_accelerator_is_named_in_the_code() -> None:
    """Resource names and products are data. The small cluster, which plays a fleet, and migrations are left out."""
    names = {re.escape(entry.name) for entry in ENTRIES if re.search(r"[A-Z]\w*\d", entry.name)}
    product = re.compile(r"\b(" + "|".join(sorted(names)) + r")\b")
    resource = re.compile(r"[a-z0-9-]+\.[a-z0-9.-]+/[A-Za-z0-9._-]*[A-Za-z0-9]")
    found = []
    for path in [*ROOT.glob("apps/**/*.py"), *ROOT.glob("maasportal/**/*.py")]:
        if "localcluster" in path.parts or "migrations" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        for node in texts:
            text = str(node.value)
            named = product.search(text) or any(CATALOGUE.known(name) for name in resource.findall(text))
            if named and id(node) not in prose:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text[:60]}")
    assert not found, "\n".join(found)
    assert SHIPPED.suffix == ".yaml"
