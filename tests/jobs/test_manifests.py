"""What the cluster is sent."""

from __future__ import annotations

from apps.jobs.domain.manifests import Place, command_manifest, job_manifests, probe_pod
from apps.jobs.domain.spec import read_spec

PLACE = Place("tenant-nlp", "tenant-nlp", "nlp", "nvidia.com/gpu")
ID = "01KB6Y2V8N4QK3S5T7W9X1Z2A3"


def spec(**changes: object):
    return read_spec({"template": "charlm", "name": "first light", **changes})


def test_rank_zero_is_a_task_of_its_own() -> None:
    """With one name for master and worker, Volcano's pytorch plugin gives ranks 1..n and nobody is 0."""
    job = job_manifests(ID, spec(ranks=4), PLACE)[-1]
    assert [(task["name"], task["replicas"]) for task in job["spec"]["tasks"]] == [("master", 1), ("worker", 3)]
    assert job["spec"]["minAvailable"] == 4


def test_one_rank_has_no_worker_task() -> None:
    job = job_manifests(ID, spec(ranks=1), PLACE)[-1]
    assert [task["name"] for task in job["spec"]["tasks"]] == ["master"]


def test_tasks_carry_what_the_webhook_would_write() -> None:
    """Otherwise the same manifest applied twice is refused."""
    for task in job_manifests(ID, spec(ranks=3, attempts=5), PLACE)[-1]["spec"]["tasks"]:
        assert task["minAvailable"] == task["replicas"]
        assert task["maxRetry"] == 5


def test_failed_and_evicted_ranks_restart_the_gang_and_containers_never_restart_in_place() -> None:
    job = job_manifests(ID, spec(), PLACE)[-1]["spec"]
    assert {policy["event"]: policy["action"] for policy in job["policies"]} == {
        "PodFailed": "RestartJob",
        "PodEvicted": "RestartJob",
    }
    assert {task["template"]["spec"]["restartPolicy"] for task in job["tasks"]} == {"Never"}


def test_pods_pass_the_restricted_pod_security_standard() -> None:
    pod = probe_pod(ID, spec(), PLACE)["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is False
    assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} <= {"persistentVolumeClaim", "emptyDir"}


def test_names_leave_room_for_task_and_index() -> None:
    name = job_manifests(ID, spec(), PLACE)[-1]["metadata"]["name"]
    assert len(f"{name}-worker-511") <= 63
    assert name == name.lower()


def test_a_known_uid_goes_with_the_job_so_that_a_late_apply_revives_nothing() -> None:
    assert job_manifests(ID, spec(), PLACE, uid="u-1")[-1]["metadata"]["uid"] == "u-1"
    assert "uid" not in job_manifests(ID, spec(), PLACE)[-1]["metadata"]


def test_a_command_has_no_spec_and_the_same_retry_gives_the_same_name() -> None:
    once, again = (command_manifest(ID, PLACE, "u-1", "AbortJob", 0) for _ in range(2))
    assert once == again
    assert "spec" not in once
    assert (once["action"], once["target"]["name"]) == ("AbortJob", f"j-{ID.lower()}")
