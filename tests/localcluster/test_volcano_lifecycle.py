"""The life of a job: restarts and how they are counted, suspension, endings, as the real Volcano did it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apps.localcluster.volcano import lifecycle
from apps.localcluster.volcano.objects import name
from tests.localcluster.volcano_cases import Object, admitted, case, cases, created
from tests.localcluster.volcano_world import World

# Not in the world of this test: time (timeouts, ttl), an API server, and what differed between the recordings.
ELSEWHERE = {
    "05-delete-job",
    "05-failures-apart",
    "05-pod-identity",
    "05-podpending-timeout",
    "05-podpending-timeout-with-pods",
    "05-restart-policy-on-failure",
    "05-restart-with-delay",
    "05-ttl",
    "05-ttl-zero",
}
REPLAYED = [found for found in cases("05") if found["id"] not in ELSEWHERE]
MOMENTARY = {"(none)", "(deleted)", "Restarting", "Aborting", "Terminating", "Completing"}
RETRYING = {
    "event": "PodFailed",
    "action": "RestartJob",
}


def lasting(phases: list[str]) -> list[str]:
    kept = [phase for phase in phases if phase not in MOMENTARY]
    return [phase for index, phase in enumerate(kept) if index == 0 or kept[index - 1] != phase]


def replay(found: Object) -> World:
    world = World(found["fleet"])
    for step in found["objects"]:
        world.follow(step)
        if "look" in step:
            want = found["outcome"]["seen"][step["look"]]
            assert world.seen()["jobs"] == want["jobs"]
    return world


@pytest.mark.parametrize("found", REPLAYED, ids=lambda c: c["id"])
def test_a_case_ends_as_recorded(found: Object) -> None:
    world, outcome = replay(found), found["outcome"]
    assert world.seen().get("jobs") == outcome["final"].get("jobs")
    assert set(world.seen().get("podgroups", {})) == set(outcome["final"].get("podgroups", {}))
    for key, phases in outcome["phase_sequences"].items():
        if key.startswith("Job/") and key not in found["varied"]:
            assert lasting(world.phases[key.removeprefix("Job/")]) == lasting(phases)
    for job, counts in outcome["final"].get("pods", {}).items():
        mine = [pod["status"]["phase"] for pod in world.pods.values() if name(pod).startswith(f"{job}-")]
        assert {phase: mine.count(phase) for phase in set(mine)} == counts


def two_pods(**spec: Any) -> tuple[Object, list[Object]]:
    """A running job of two pods."""
    job = admitted({**created(case("05-podfailed-restartjob"))[0]})
    job["spec"] |= spec
    job["status"] = {"state": {"phase": "Running"}, "minAvailable": 2}
    world = World()
    world.jobs["a"] = job
    world.settle()
    return job, list(world.pods.values())


def test_an_attempt_is_counted_once_whenever_the_controller_is_stopped() -> None:
    """Status first, pods second: after a stop in between the pods of the old version are known as left over."""
    job, pods = two_pods(policies=[RETRYING])
    pods[0]["status"]["phase"] = "Failed"
    begun = lifecycle.begun(job, "RestartJob", pods)
    assert begun is not None
    stopped_here = {**job, "status": begun}
    assert list(lifecycle.triggers(stopped_here, pods, [], "Running")) == []
    assert lifecycle.doomed(stopped_here, pods) == pods
    assert lifecycle.settled(stopped_here, pods)["state"]["phase"] == "Restarting"
    assert lifecycle.settled(stopped_here, [])["state"]["phase"] == "Pending"
    assert lifecycle.settled(stopped_here, [])["retryCount"] == 1


def test_pods_lost_while_the_controller_was_away_count_as_evicted() -> None:
    evicted = {"event": "PodEvicted", "action": "RestartJob"}
    job, pods = two_pods(policies=[evicted])
    assert lifecycle.missing_pods(job, pods) == []
    missing = lifecycle.missing_pods(job, pods[1:])
    assert missing == [name(pods[0])]
    assert [trigger.action for trigger in lifecycle.triggers(job, pods[1:], missing, "Running")] == ["RestartJob"]


def test_pods_not_yet_made_are_not_missing() -> None:
    job, _ = two_pods()
    fresh = copy.deepcopy(job)
    fresh["status"] = {"state": {"phase": "Pending"}, "minAvailable": 2}
    assert lifecycle.missing_pods(fresh, []) == []
    grown = copy.deepcopy(job)
    grown["spec"]["tasks"][0]["replicas"] = 3
    world_pods = two_pods()[1]
    assert lifecycle.missing_pods(grown, world_pods) == []


def test_a_restarted_pod_is_not_mistaken_for_an_evicted_one() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod"}, {"event": "PodEvicted", "action": "RestartJob"}]
    job, pods = two_pods(policies=policies)
    pods[0]["status"]["phase"] = "Failed"
    trigger = next(iter(lifecycle.triggers(job, pods, [], "Running")))
    assert (trigger.action, trigger.pod) == ("RestartPod", name(pods[0]))
    for pod in lifecycle.targets(trigger, job, pods):
        pod["metadata"]["annotations"]["volcano.sh/controller-out-of-sync"] = "true"
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert list(lifecycle.triggers(job, pods, [], "Running")) == []


@pytest.mark.parametrize(("text", "wanted"), [("5s", 5), ("1m30s", 90), ("1h", 3600), ("100ms", 0.1), ("0s", 0)])
def test_durations_are_read_as_go_writes_them(text: str, wanted: float) -> None:
    assert lifecycle.seconds(text) == pytest.approx(wanted)
