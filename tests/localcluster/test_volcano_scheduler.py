"""Gangs, places and reasons, as the real Volcano decided them."""

from __future__ import annotations

import re

import pytest

from apps.localcluster.volcano.objects import name
from tests.localcluster.volcano_cases import Object, case, cases
from tests.localcluster.volcano_world import World

# What these cases look at is not in the world of this test: an API server that refuses pods or binds volumes, nodes
# that change, plain pods, another scheduler setting, and reasons that differed between the recordings themselves.
ELSEWHERE = {
    "01-bare-pod",
    "01-task-minimum-impossible",
    "02-spread-three-small",
    "07-aborted-job-says",
    "07-missing-pvc",
    "07-missing-service-account",
    "07-namespace-quota",
    "07-namespace-quota-pods",
    "07-scheduling-gates",
}
# Told while the recorded scheduler counted a gang twice for a moment, as let in and as placed.
PASSING = {("six-uid-six", "Unschedulable", "resource in cluster is overused: overused nvidia.com/gpu")}
REPLAYED = [found for found in cases("01", "02", "07") if found["id"] not in ELSEWHERE]


def like(want: Object, have: Object) -> Object:
    """What was seen, of the kinds that the recording names."""
    return {key: have.get(key) for key in want if key in ("jobs", "podgroups", "gpus_per_node_sorted")}


@pytest.mark.parametrize("found", REPLAYED, ids=lambda c: c["id"])
def test_a_case_ends_as_recorded(found: Object) -> None:
    world, outcome = World(found["fleet"]), found["outcome"]
    for step in found["objects"]:
        if "create" in step:
            world.create(step["create"])
        elif "patch" in step:
            node = next(n for n in world.nodes if name(n) == step["patch"].removeprefix("Node/"))
            node["spec"] |= step["body"]["spec"]
        elif "pods_end" in step:
            for pod in step["pods_end"]:
                world.end(pod, step["exit_code"])
        world.settle()
        if "look" in step:
            want = outcome["seen"][step["look"]]
            assert like(want, world.seen()) == like(want, want)
    assert like(outcome["final"], world.seen()) == like(outcome["final"], outcome["final"])


@pytest.mark.parametrize("found", [c for c in REPLAYED if c["id"].startswith("07")], ids=lambda c: c["id"])
def test_the_reason_is_told_in_volcanos_words(found: Object) -> None:
    world = World(found["fleet"])
    for step in found["objects"]:
        if "create" in step:
            world.create(step["create"])
        elif "patch" in step:
            node = next(n for n in world.nodes if name(n) == step["patch"].removeprefix("Node/"))
            node["spec"] |= step["body"]["spec"]
        world.settle()
    wanted = {
        (re.sub(r"PodGroup/(\w+)-<uid>", r"\1-uid-\1", event["on"]), event["reason"], event["message"])
        for event in found["outcome"].get("events", [])
        if event["on"].startswith("PodGroup/")
    }
    assert wanted - PASSING <= world.told


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
