"""What is said to stand in a gang's way is what the scheduler lets stand in its way."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.clusters.domain.accelerators import Catalogue
from apps.clusters.domain.capacity import NodeSpace
from apps.clusters.domain.pending import Code, Finding, Fleet, Gang, examine
from apps.clusters.domain.quantity import thousandths, whole
from apps.clusters.domain.queues import QueueSeen
from apps.clusters.services.catalogue import _shipped
from apps.clusters.watch.nodes import Inventory
from apps.clusters.watch.projections import NODES, PODS
from apps.clusters.watch.queues import QUEUES, seen
from apps.localcluster.volcano.scheduler import session
from apps.localcluster.volcano.scheduler.model import Snapshot
from tests.clusters.test_largest_gang import ASKS, WISHES, fleet
from tests.localcluster.test_volcano_scheduler import world_of
from tests.localcluster.volcano_cases import case, open_queue
from tests.localcluster.volcano_random import CLASSES, SETTINGS
from tests.localcluster.volcano_world import World

GPU = "nvidia.com/gpu"
CPUS = {"500m": 500, "1": 1000, "8": 8000}
BYTES = {"64Mi": 64 << 20, "20Gi": 20 << 30}
Object = dict[str, Any]
CATALOGUE = Catalogue(*_shipped())
GANGS = st.tuples(st.integers(1, 5), ASKS)
LIMITS = st.fixed_dictionaries(
    {"mine": st.sampled_from([None, None, 0, 4, 8, 24, 9999]), "cpu": st.sampled_from([None, None, 0, 2000, 9000])},
    optional={"guaranteed": st.sampled_from([4, 16])},
)


def member(gang: str, index: int, asks: Object, where: str = "") -> Object:
    metadata = {"name": f"{gang}-{index}", "namespace": "team-a", "uid": f"{gang}-{index}", "resourceVersion": "1"}
    made = {"creationTimestamp": "2026-01-01T01:00:00Z"}
    notes = {"annotations": {"scheduling.k8s.io/group-name": gang, "volcano.sh/task-spec": "r"}}
    container = {"name": "main", "resources": {"requests": asks}}
    spec = {"schedulerName": "volcano", "containers": [container], **({"nodeName": where} if where else {})}
    return {"metadata": metadata | made | notes, "spec": spec, "status": {"phase": "Running" if where else "Pending"}}


def group(name: str, size: int, phase: str, asks: Object) -> Object:
    metadata = {"name": name, "namespace": "team-a", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    total = {"cpu": f"{size * CPUS[asks['cpu']]}m", GPU: str(size * int(asks[GPU])), "memory": "1Mi"}
    spec = {"queue": "mine", "minMember": size, "minTaskMember": {"r": size}, "minResources": total}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def alike(nodes: list[Object], pods: list[Object]) -> Fleet:
    inventory = Inventory(1).read(
        [NODES.decode(json.dumps(one)) for one in nodes], [PODS.decode(json.dumps(one)) for one in pods], CATALOGUE
    )
    offering = [one for one in inventory if one.space.resource == GPU]
    spaces: Counter[NodeSpace] = Counter(replace(one.space, name="") for one in offering)
    most = {
        name: max(one.facts["resources"][name][1] for one in offering) for name in (GPU, "cpu", "memory") if offering
    }
    return Fleet(list(spaces.items()), most)


def found(nodes: list[Object], busy: list[Object], ask: tuple[int, Object], limits: Object) -> tuple[Finding, int]:
    """What the portal finds in a gang's way, and how many of its pods the scheduler places in one session."""
    size, asks = ask
    amounts = {GPU: int(asks[GPU]), "cpu": CPUS[asks["cpu"]], "memory": BYTES[asks["memory"]]}
    held = Counter[str]()
    for pod in busy:
        if pod["metadata"]["annotations"]:
            held += Counter({GPU: 2, "cpu": 1000})
    capability = {name: limits[key] for name, key in ((GPU, "mine"), ("cpu", "cpu")) if limits[key] is not None}
    spec: Object = {"capability": {GPU: str(capability[GPU])} if GPU in capability else {}}
    spec["capability"] |= {"cpu": f"{capability['cpu']}m"} if "cpu" in capability else {}
    guarantee = {GPU: limits["guaranteed"]} if "guaranteed" in limits else {}
    others = {"guarantee": {"resource": {name: str(amount) for name, amount in guarantee.items()}}}
    queues = [open_queue("root"), open_queue("mine", **spec), open_queue("theirs", **others)]
    groups = [group("gang", size, "Pending", asks)]
    if held:
        running = sum(bool(pod["metadata"]["annotations"]) for pod in busy)
        groups.append(group("busy", running, "Running", {"cpu": "1", GPU: "2"}))
    first = session.run(Snapshot(nodes, busy, groups, queues, {}, [], CLASSES), SETTINGS["testbed"])
    for report in first.reports:
        report.group["status"] = report.status
    pods = [member("gang", index, asks) for index in range(size)]
    if groups[0]["status"]["phase"] == "Pending":
        pods = []  # it was not let in
    second = session.run(Snapshot(nodes, [*busy, *pods], groups, queues, {}, [], CLASSES), SETTINGS["testbed"])
    seen = [
        QueueSeen("mine", capability=capability, allocated=held, state="Open"),
        QueueSeen("theirs", guarantee=guarantee, state="Open"),
    ]
    return examine(Gang(size, GPU, amounts), "mine", seen, alike(nodes, busy), {}), len(second.bindings)


def fitting(nodes: list[Object], pods: list[Object]) -> list[Object]:
    """Those of some placed pods that their nodes have room for. What a node has lost below its pods closes the
    scheduler's door to the whole fleet, by arithmetic of its own."""
    left = {
        one["metadata"]["name"]: Counter({GPU: int(offers[GPU]), "cpu": thousandths(offers["cpu"])})
        for one in nodes
        for offers in [one["status"]["allocatable"]]
    }
    kept = []
    for pod in pods:
        asks = pod["spec"]["containers"][0]["resources"]["requests"]
        taken, room = Counter({GPU: int(asks[GPU]), "cpu": thousandths(asks["cpu"])}), left[pod["spec"]["nodeName"]]
        if taken <= room:
            room.subtract(taken)
            kept.append(pod)
    return kept


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WISHES, min_size=1, max_size=6), GANGS, LIMITS, st.integers(0, 3))
def test_an_obstacle_is_named_exactly_where_the_scheduler_places_nothing(
    wishes: list[Object], wish: tuple[int, tuple[int, str, str]], limits: Object, running: int
) -> None:
    size, (gpus, cpu, memory) = wish
    nodes, held = fleet(wishes)
    roomy = [one["metadata"]["name"] for one, wish in zip(nodes, wishes, strict=True) if wish["gpus"] == 8]
    own = [member("busy", n, {GPU: "2", "cpu": "1", "memory": "1Mi"}, where) for n, where in enumerate(roomy[:running])]
    asks = {GPU: str(gpus), "cpu": cpu, "memory": memory}
    finding, placed = found(nodes, fitting(nodes, [*own, *held]), (size, asks), limits)
    assert placed in (0, size)
    assert bool(finding.obstacles) == (placed == 0), finding


def examined(world: World, label: str) -> Finding:
    """What is found in the way of a job of a world that has come to rest."""
    job = world.jobs[label]
    (task,) = job["spec"]["tasks"]
    asks = task["template"]["spec"]["containers"][0]["resources"]["requests"]
    amounts = {GPU: int(asks[GPU]), "cpu": thousandths(asks["cpu"]), "memory": whole(asks["memory"])}
    gang = Gang(job["spec"]["minAvailable"], GPU, amounts)
    for name, queue in world.queues.items():
        queue["status"]["allocated"] = world.decisions.allocated[name]
        queue["metadata"] |= {"uid": name, "resourceVersion": "1"}
    read = [seen(QUEUES.decode(json.dumps(queue))) for queue in world.queues.values()]
    return examine(gang, job["spec"]["queue"], read, alike(*seen_by_the_watch(world)), {})


def seen_by_the_watch(world: World) -> tuple[list[Object], list[Object]]:
    """Nodes and pods with what a server gives every object."""
    stamp = {"uid": "x", "resourceVersion": "1"}
    nodes = [{**one, "metadata": {**stamp, **one["metadata"]}} for one in world.nodes]
    for one in nodes:
        one["status"] = {"capacity": one["status"]["allocatable"], **one["status"]}
    pods = [{**one, "metadata": {**stamp, **one["metadata"]}} for one in world.pods.values()]
    return nodes, [one for one in pods if one["spec"].get("nodeName")]


GOLDEN = {
    "01-small-jobs-overtake-waiting-gang": ("big", Code.FLEET_FULL),
    "01-too-big-by-one-node": ("a", Code.FLEET_NEVER),
    "01-two-gangs-not-together": ("b", Code.FLEET_FULL),
    "02-fragmented": ("eight", Code.PIECES),
    "03-equal": ("same", Code.PIECES),
    "03-full-gang-victim-chart-gang": ("high", Code.FLEET_FULL),
    "04-bigger-than-capability": ("a", Code.QUEUE_NEVER),
    "04-capability-lowered-below-use": ("b", Code.QUEUE_FULL),
    "04-capability-zero": ("a", Code.QUEUE_NEVER),
    "04-child-inside-parent-hierarchy-on": ("b", Code.QUEUE_FULL),
    "04-queue-priority": ("a", Code.FLEET_FULL),
    "04-reclaim-elastic": ("b", Code.FLEET_FULL),
    "04-reclaimable-false-oc": ("b", Code.FLEET_FULL),
    "04-small-overtakes-in-queue": ("big", Code.QUEUE_FULL),
    "07-all-cordoned": ("a", Code.NODES_OUT),
    "07-busy-by-one-job": ("a", Code.FLEET_FULL),
    "07-cpu-short": ("a", Code.NODE_NEVER),
    "07-gang-bigger-than-fleet": ("a", Code.FLEET_NEVER),
    "07-not-enough-whole-nodes": ("a", Code.PIECES),
    "07-pod-bigger-than-node": ("a", Code.NODE_NEVER),
    "07-queue-quota": ("b", Code.QUEUE_FULL),
    "07-taint": ("a", Code.NODES_OUT),
}
"""Jobs that were seen to wait under Volcano 1.15.1, and what is in their way."""


@pytest.mark.parametrize("label", GOLDEN)
def test_a_job_that_waited_under_volcano_is_told_its_true_reason(label: str) -> None:
    """The situations of volcano#3910, #3220 and #3426 as recorded: the scheduler's two sentences are said of six
    different obstacles, "queue resource quota insufficient" even of queues without any limit."""
    waiting, code = GOLDEN[label]
    recorded = case(label)
    world = world_of(recorded)
    for step in recorded["objects"]:
        world.follow(step)
    finding = examined(world, waiting)
    assert finding.obstacles[0].code is code, finding.obstacles
    if code in (Code.QUEUE_FULL, Code.FLEET_FULL):
        line = finding.obstacles[0].line
        assert line.short == line.asked - (line.free or 0) > 0


def test_the_queue_above_is_named_where_it_is_the_one_that_is_full() -> None:
    recorded = case("04-child-inside-parent-hierarchy-on")
    world = world_of(recorded)
    for step in recorded["objects"]:
        world.follow(step)
    (obstacle,) = examined(world, "b").obstacles
    assert (obstacle.queue, obstacle.line.limit, obstacle.line.used) == ("dept", 8, 8)
