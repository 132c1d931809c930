"""Gangs, places and reasons, as the real Volcano decided them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from apps.localcluster.volcano.objects import name
from apps.localcluster.volcano.scheduler import allocation, topology
from apps.localcluster.volcano.scheduler.model import Job, Snapshot
from apps.localcluster.volcano.scheduler.settings import Settings
from apps.localcluster.volcano.scheduler.state import State
from tests.localcluster.volcano_cases import SETUP, Object, case, cases, nodes, open_queue
from tests.localcluster.volcano_world import World

# What these cases look at is not in the world of this test: an API server that refuses, sets defaults or binds volumes,
# commands for queues, nodes that change, plain pods, and reasons that differed between the recordings themselves.
ELSEWHERE = {
    "01-bare-pod",
    "01-task-minimum-impossible",
    "03-unknown-priority-class",
    "04-close-queue",
    "04-delete-closed-empty-queue",
    "04-delete-queue-with-running-job",
    "04-move-job-to-other-queue",
    "04-parent-child-sums",
    "04-parent-of-queue-with-pods",
    "04-root-queue",
    "04-unknown-queue",
    "07-aborted-job-says",
    "07-missing-pvc",
    "07-missing-service-account",
    "07-namespace-quota",
    "07-namespace-quota-pods",
    "07-scheduling-gates",
}
# Told while the recorded scheduler counted a gang twice for a moment, as let in and as placed.
PASSING = {("six-uid-six", "Unschedulable", "resource in cluster is overused: overused nvidia.com/gpu")}
REPLAYED = [found for found in cases("01", "02", "03", "04", "07", "11") if found["id"] not in ELSEWHERE]


def world_of(found: Object) -> World:
    return World(found["fleet"], settings=Settings.parse(SETUP["schedulers"][found["scheduler"]]))


def like(want: Any, have: Any) -> Any:
    """What was seen, of what the recording names: what was not the same each time stands not in it."""
    if isinstance(want, dict) and isinstance(have, dict):
        return {key: like(value, have.get(key)) for key, value in want.items() if key not in ("pods", "gpus_by_node")}
    return have


@pytest.mark.parametrize("found", REPLAYED, ids=lambda c: c["id"])
def test_a_case_ends_as_recorded(found: Object) -> None:
    world, outcome = world_of(found), found["outcome"]
    for step in found["objects"]:
        world.follow(step)
        if "look" in step:
            want = outcome["seen"][step["look"]]
            assert like(want, world.seen()) == like(want, want)
    assert like(outcome["final"], world.seen()) == like(outcome["final"], outcome["final"])


@pytest.mark.parametrize("found", [c for c in REPLAYED if c["id"].startswith("07")], ids=lambda c: c["id"])
def test_the_reason_is_told_in_volcanos_words(found: Object) -> None:
    world = world_of(found)
    for step in found["objects"]:
        world.follow(step)
    wanted = {
        (re.sub(r"PodGroup/(\w+)-<uid>", r"\1-uid-\1", event["on"]), event["reason"], event["message"])
        for event in found["outcome"].get("events", [])
        if event["on"].startswith("PodGroup/")
    }
    assert wanted - PASSING <= world.told


@pytest.mark.parametrize("found", [c for c in REPLAYED if "Evict" in str(c["outcome"])], ids=lambda c: c["id"])
def test_whose_pods_are_taken_and_why_is_told(found: Object) -> None:
    world = world_of(found)
    for step in found["objects"]:
        world.follow(step)
    events = [event for event in found["outcome"]["events"] if event["reason"] == "Evict"]
    wanted = {(event["on"][9:-6], event["message"]) for event in events if event["on"].startswith("PodGroup/")}
    assert wanted <= {(group.partition("-uid-")[0], words) for group, reason, words in world.told if reason == "Evict"}


@pytest.mark.parametrize("found", [c for c in REPLAYED if c["id"].startswith("11")], ids=lambda c: c["id"])
def test_gangs_stay_together_as_recorded(found: Object) -> None:
    world, facts = world_of(found), found["outcome"].get("facts", {})
    for step in found["objects"]:
        world.follow(step)
    leaf = {"n-0000": 1, "n-0001": 1, "n-0002": 2, "n-0003": 2}
    used = Counter(leaf[p["spec"]["nodeName"]] for p in world.pods.values() if p["spec"].get("nodeName"))
    if "pods_per_leaf" in facts:
        assert sorted(used.values(), reverse=True) == facts["pods_per_leaf"]
    for label, fact in (("a", "nodes"), ("s", "soft_on")):
        if fact in facts:
            mine = [pod["spec"]["nodeName"] for key, pod in world.pods.items() if key.startswith(f"{label}-")]
            assert sorted(mine) == facts[fact]
    for label, status in facts.get("status", {}).items():
        item = next(hypernode for hypernode in world.hypernodes if name(hypernode) == label)
        kwok = [{"metadata": {**n["metadata"], "labels": {"type": "kwok"}}} for n in world.nodes]
        assert topology.count(item, kwok) == status["nodeCount"]


def test_pods_of_one_service_are_kept_apart_and_others_packed() -> None:
    """06-svc lands on three nodes, 06-env on one: the headless Service makes the difference."""
    for plugin, spread in (("06-svc", [1, 1, 1]), ("06-env", [3])):
        found = case(plugin)
        selector = {"volcano.sh/job-name": "a", "volcano.sh/job-namespace": "team-a"}
        service = {"metadata": {"name": "a", "namespace": "team-a"}, "spec": {"selector": selector}}
        world = World(services=[service] if plugin == "06-svc" else [])
        world.create(found["objects"][0]["create"])
        world.settle()
        assert world.seen()["gpus_per_node_sorted"] == spread == found["outcome"]["final"]["gpus_per_node_sorted"]


def gang(label: str, pods: int, gpus: int, **spec: object) -> Object:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    task = {"name": "w", "replicas": pods, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    metadata = {"name": label, "namespace": "team-a"}
    api = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return {**api, "metadata": metadata, "spec": {"tasks": [task], **spec}}


def test_queue_capability_is_never_exceeded() -> None:
    """04-two-jobs-race-for-quota-and-fleet: ten jobs of 8 in a queue of 16."""
    world = World()
    world.create({"kind": "Queue", "metadata": {"name": "qa"}, "spec": {"capability": {"nvidia.com/gpu": "16"}}})
    for index in range(10):
        world.create(gang(f"j{index}", 1, 8, queue="qa"))
    world.settle()
    assert sorted(label for label, job in world.seen()["jobs"].items() if job["phase"] == "Running") == ["j0", "j1"]
    assert world.decisions.allocated["qa"] == {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "16", "pods": "2"}


def test_waiting_jobs_are_served_by_priority_not_by_age() -> None:
    """03-order-of-waiting-jobs."""
    world = World(priorities={"low": 10, "mid": 100})
    for job in (gang("full", 3, 8), gang("short", 1, 8), gang("low", 1, 8, priorityClassName="low")):
        world.create(job)
        world.settle()
    world.create(gang("mid", 1, 8, priorityClassName="mid"))
    world.settle()
    world.end("short-w-0", 0)
    world.settle()
    phases = {label: job["phase"] for label, job in world.seen()["jobs"].items()}
    assert phases == {"full": "Running", "short": "Completed", "low": "Pending", "mid": "Running"}


def test_a_queue_that_is_not_open_gives_nothing_out() -> None:
    world = World()
    world.create({"kind": "Queue", "metadata": {"name": "qa"}, "spec": {}})
    world.queues["qa"]["status"]["state"] = "Closing"
    world.create(gang("a", 1, 8, queue="qa"))
    world.settle()
    assert world.seen()["jobs"]["a"] == {"phase": "Pending", "minAvailable": 1}
    assert world.pods == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("preempt, ", "gangpreempt, "), "action gangpreempt is not offered"),
        (("name: conformance", "name: tdm"), "plugin tdm is not offered"),
        (("binpack.weight", "task.weight"), "argument task.weight is not offered"),
        (("name: capacity", "name: capacity\n    enableQueueOrder: false"), "enableQueueOrder: False is not offered"),
        (("name: nodeorder", "name: proportion"), "capacity and proportion exclude each other"),
        (("tiers:", "plugins:"), "not a configuration of Volcano's scheduler"),
    ],
)
def test_a_setting_that_is_not_offered_is_refused(change: tuple[str, str], words: str) -> None:
    text = SETUP["schedulers"]["testbed"]
    assert change[0] in text
    with pytest.raises(ValueError, match=re.escape(words)):
        Settings.parse(text.replace(*change))


def test_the_default_is_the_setting_of_the_recordings() -> None:
    assert Settings.load() == Settings.parse(SETUP["schedulers"]["testbed"])


def test_each_waiting_job_takes_its_place_in_the_order_once() -> None:
    """A session with thousands of waiting jobs lasts no longer than they are many."""
    asked: Counter[str] = Counter()

    class Counting(State):
        def order(self, job: Job) -> tuple[Any, ...]:
            asked[job.label] += 1
            return super().order(job)

    spec = {"minMember": 1, "queue": "default", "minResources": {"nvidia.com/gpu": "8"}}
    groups = [{"metadata": {"name": f"g-{one}", "namespace": "team-a"}, "spec": spec} for one in range(50)]
    snapshot = Snapshot(nodes("4x8"), [], groups, [open_queue()], {}, [], {})
    state = Counting(snapshot, Settings.load())
    allocation.enqueue(state)
    assert asked == {f"team-a/g-{one}": 1 for one in range(50)}
    assert "Pending" in state.phases.values()
