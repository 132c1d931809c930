"""What is kept of a pod decides as the whole pod does, and is small."""

from __future__ import annotations

import json
from typing import Any

from apps.localcluster.volcano import lifecycle, pods, shapes
from apps.localcluster.volcano.scheduler.model import Node, Task
from apps.localcluster.volcano.scheduler.nodes import claim_fault, shape
from tests.localcluster.test_volcano_scheduler import gang
from tests.localcluster.volcano_cases import admitted, nodes

STATUS = {
    "phase": "Failed",
    "conditions": [{"type": "Ready", "status": "False"}],
    "containerStatuses": [
        {"name": "main", "ready": False, "restartCount": 2, "image": "x", "state": {"terminated": {"exitCode": 3}}}
    ],
    "podIP": "10.0.0.1",
}


def whole_pod() -> dict[str, Any]:
    job = admitted(gang("a", 1, 8))
    task = job["spec"]["tasks"][0]
    task["template"]["spec"] |= {
        "nodeSelector": {"zone": "b"},
        "tolerations": [{"key": "reserved", "operator": "Exists"}],
        "initContainers": [{"name": "i", "image": "x", "resources": {"requests": {"cpu": "9"}}}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "emptyDir": {}}],
    }
    task["template"]["spec"]["containers"][0]["env"] = [{"name": f"V{i}", "value": "x" * 40} for i in range(50)]
    pod = pods.build(job, task, 0)
    pod["metadata"] |= {"uid": "u", "resourceVersion": "5", "managedFields": [{"fieldsV1": {"f": "x" * 900}}]}
    return {**pod, "status": STATUS}


def test_a_kept_pod_decides_as_the_whole_one() -> None:
    whole = whole_pod()
    kept = shapes.pod(whole)
    before, after = Task.of(whole), Task.of(kept)
    for field in ("role", "request", "priority", "state", "node", "gated", "preemptable", "label"):
        assert getattr(before, field) == getattr(after, field)
    assert before.request["cpu"] == 9000
    assert shape(before) == shape(after)
    assert claim_fault(before, {}) == claim_fault(after, {}) == 'persistentvolumeclaim "data" not found'
    job = admitted(gang("a", 1, 8, policies=[{"exitCode": 3, "action": "AbortJob"}]))
    job["status"] = {"state": {"phase": "Running"}}
    found = [[t.action for t in lifecycle.triggers(job, [pod], [], "Running")] for pod in (whole, kept)]
    assert found == [["AbortJob"]] * 2
    assert len(json.dumps(kept)) < len(json.dumps(whole)) / 2


def test_a_kept_node_decides_as_the_whole_one() -> None:
    whole = nodes("4x8-taint")[0]
    whole["status"] |= {"images": [{"names": ["x"], "sizeBytes": 1}], "nodeInfo": {"osImage": "y"}}
    kept = shapes.node(whole)
    assert Node.of(kept).allocatable == Node.of(whole).allocatable
    assert kept["spec"]["taints"] == whole["spec"]["taints"]
    assert "images" not in kept["status"]
