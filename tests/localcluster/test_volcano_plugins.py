"""What the plugins do to pods and make for a job: equal to what was recorded of the real ones."""

from __future__ import annotations

import pytest

from apps.localcluster.volcano import plugins, pods
from apps.localcluster.volcano.objects import name, replicas, tasks
from tests.localcluster.volcano_cases import Object, admitted, case, cases, created
from tests.localcluster.volcano_made import object_facts, pod_facts

RECORDED = [found for found in cases("06") if found["outcome"].get("facts")]


@pytest.mark.parametrize("found", RECORDED, ids=lambda c: c["id"])
def test_pods_and_objects_are_those_recorded(found: Object) -> None:
    job, facts = admitted(created(found)[0]), found["outcome"]["facts"]
    built = [pods.build(job, task, index) for task in tasks(job) for index in range(replicas(task))]
    assert {name(pod): pod_facts(pod) for pod in built} == facts["pods"]
    made = plugins.made_objects(job)
    secret = plugins.ssh_secret(job, b"private", b"public")
    made += [secret] if secret else []
    assert {f"{item['kind']}/{name(item)}": object_facts(item) for item in made} == facts["objects_made"]
    assert job["spec"].get("plugins") == facts["plugins_after_defaults"]
    assert (plugins.controlled(job) or None) == facts["controlledResources"]


def test_a_pod_says_whose_it_is() -> None:
    job = admitted(created(case("01-fits"))[0])
    job["status"] = {"version": 2, "retryCount": 1}
    pod = pods.build(job, tasks(job)[0], 3)
    assert pod["metadata"]["labels"] == {
        "volcano.sh/job-name": "a",
        "volcano.sh/job-namespace": "team-a",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "w",
    }
    assert pod["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "a-uid-a",
        "volcano.sh/job-name": "a",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/job-version": "2",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "w",
        "volcano.sh/template-uid": "a-w",
    }
    assert pod["metadata"]["name"] == "a-w-3"
    assert pod["spec"]["schedulerName"] == "volcano"


def test_the_pod_group_asks_for_the_first_pods_of_the_gang() -> None:
    job = admitted(created(case("01-min-task-member"))[0])
    spec = pods.group_spec(job, {})
    assert (spec["minMember"], spec["minTaskMember"]) == (3, {"master": 1, "worker": 2})
    assert spec["minResources"] == {
        "count/pods": "3",
        "cpu": "3",
        "limits.cpu": "3",
        "limits.memory": "3Gi",
        "memory": "3Gi",
        "nvidia.com/gpu": "24",
        "pods": "3",
        "requests.cpu": "3",
        "requests.memory": "3Gi",
        "requests.nvidia.com/gpu": "24",
    }
