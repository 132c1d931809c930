"""A judge that is not ours: kubectl does its everyday work on the small cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.small_cluster import SmallCluster, small_cluster

KUBECTL = str(Path(sys.executable).with_name("kubectl"))
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: lab, labels: {{app: {name}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: maas/shell:1
    command: [sh, -c, "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done"]
    resources: {{limits: {{cpu: 100m}}}}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: lab}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {{name: main, image: "maas/shell:1", command: [sh, -c, "echo {words}; sleep 1000"]}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: sums, namespace: lab}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "maas/shell:1", command: [sh, -c, "echo $((6 * 7))"]}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guard, namespace: lab}
spec: {minAvailable: 1, selector: {matchLabels: {app: guarded}}}
"""


class Kubectl:
    """kubectl as the administrator of one cluster, with a discovery cache of its own."""

    def __init__(self, cluster: SmallCluster, home: Path) -> None:
        self.head = [KUBECTL, "--kubeconfig", str(cluster.kubeconfig), "--cache-dir", str(home / "cache")]

    def run(self, *arguments: str, text: str = "", code: int = 0) -> str:
        """What it prints, errors included; `code` is the exit status that is right."""
        done = subprocess.run(
            [*self.head, *arguments],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self.run("get", *arguments, "-o", "json"))

    def follow(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self.head, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with small_cluster(tmp_path_factory.mktemp("kubectl"), "nodeagent") as running:
        yield running


@pytest.fixture(scope="module")
def kubectl(cluster: SmallCluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    kubectl = Kubectl(cluster, tmp_path_factory.mktemp("home"))
    assert kubectl.run("create", "namespace", "lab") == "namespace/lab created\n"
    eventually(lambda: kubectl.get("nodes")["items"])
    return kubectl


@pytest.fixture(autouse=True)
def emptied(kubectl: Kubectl) -> Iterator[None]:
    """Nothing runs on after a test: a small machine has room for a few containers only."""
    yield
    kubectl.run("delete", "deployments,jobs,pods", "--all", "-n", "lab", "--now")


@pytest.fixture
def node(kubectl: Kubectl) -> str:
    name: str = kubectl.get("nodes")["items"][0]["metadata"]["name"]
    return name


def eventually(check: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)
    return found


def running_pod(kubectl: Kubectl, name: str, node: str) -> None:
    kubectl.run("apply", "--server-side", "-f", "-", text=POD.format(name=name, node=node))
    eventually(lambda: kubectl.get("pod", "-n", "lab", name)["status"]["phase"] == "Running")


def test_apply_checks_fields_on_the_server(kubectl: Kubectl) -> None:
    manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: lab}, data: {k: v}}"
    assert kubectl.run("apply", "--server-side", "-f", "-", text=manifest) == "configmap/a serverside-applied\n"
    told = kubectl.run("apply", "--server-side", "-f", "-", text=manifest.replace(" data", " dada"), code=1)
    assert ".dada: field not declared in schema" in told
    told = kubectl.run("apply", "-f", "-", text=manifest.replace(" data", " dada").replace("a,", "b,"), code=1)
    assert 'strict decoding error: unknown field "dada"' in told


def test_apply_from_the_client_side_merges_three_ways(kubectl: Kubectl) -> None:
    manifest = "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: lab}}, data: {{{0}}}}}"
    kubectl.run("apply", "-f", "-", text=manifest.format("k: v, gone: x"))
    kubectl.run("patch", "cm", "-n", "lab", "c", "-p", '{"data": {"other": "o"}}')
    assert kubectl.run("apply", "-f", "-", text=manifest.format("k: w")) == "configmap/c configured\n"
    assert kubectl.get("cm", "-n", "lab", "c")["data"] == {"k": "w", "other": "o"}


def test_typed_creates_arrive_although_they_are_protobuf(kubectl: Kubectl) -> None:
    run = kubectl.run
    run("create", "configmap", "-n", "lab", "typed", "--from-literal=k=v")
    run("create", "secret", "generic", "-n", "lab", "typed", "--from-literal=k=v")
    run("create", "serviceaccount", "-n", "lab", "robot")
    run("create", "role", "-n", "lab", "reader", "--verb=get,list", "--resource=pods")
    run("create", "rolebinding", "-n", "lab", "reader", "--role=reader", "--serviceaccount=lab:robot")
    run("create", "quota", "-n", "lab", "roof", "--hard=pods=40,requests.cpu=8")
    assert kubectl.get("cm", "-n", "lab", "typed")["data"] == {"k": "v"}
    assert kubectl.get("secret", "-n", "lab", "typed")["data"] == {"k": "dg=="}
    assert kubectl.get("role", "-n", "lab", "reader")["rules"][0]["verbs"] == ["get", "list"]
    assert kubectl.get("quota", "-n", "lab", "roof")["spec"]["hard"] == {"pods": "40", "requests.cpu": "8"}
    token = run("create", "token", "-n", "lab", "robot").strip()
    assert run("auth", "can-i", "list", "pods", "-n", "lab", "--token", token) == "yes\n"
    assert run("auth", "can-i", "delete", "pods", "-n", "lab", "--token", token, code=1) == "no\n"
    run("delete", "quota", "-n", "lab", "roof")


def test_get_prints_the_columns_people_know(kubectl: Kubectl, node: str) -> None:
    running_pod(kubectl, "seen", node)
    head, row = kubectl.run("get", "pod", "-n", "lab", "seen").splitlines()
    assert head.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["seen", "1/1", "Running", "0"]
    queue = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: red}, spec: {parent: root}}"
    kubectl.run("apply", "--server-side", "-f", "-", text=queue)
    assert kubectl.run("get", "queue.scheduling.volcano.sh", "red").split() == ["NAME", "PARENT", "red", "root"]


def test_get_watches(kubectl: Kubectl) -> None:
    kubectl.run("create", "configmap", "-n", "lab", "first")
    with kubectl.follow("get", "cm", "-n", "lab", "-w", "--field-selector", "metadata.name!=kube-root-ca.crt") as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().split() == ["NAME", "DATA", "AGE"]
        kubectl.run("create", "configmap", "-n", "lab", "watched")
        assert any(line.startswith("watched ") for line in iter(watch.stdout.readline, ""))
        watch.terminate()


def test_describe_tells_of_pod_and_node(kubectl: Kubectl, node: str) -> None:
    running_pod(kubectl, "told", node)
    told = kubectl.run("describe", "pod", "-n", "lab", "told")
    assert "Status:           Running" in told
    assert "maas/shell:1" in told
    assert "Allocated resources:" in kubectl.run("describe", "node", node)


def test_logs_follow(kubectl: Kubectl, node: str) -> None:
    running_pod(kubectl, "spoken", node)
    with kubectl.follow("logs", "-n", "lab", "-f", "spoken") as log:
        assert log.stdout is not None
        assert [log.stdout.readline() for _ in range(3)] == ["line 1\n", "line 2\n", "line 3\n"]
        log.terminate()


def test_exec_runs_in_the_container(kubectl: Kubectl, node: str) -> None:
    running_pod(kubectl, "entered", node)
    script = "cat; hostname; exit 3"
    told = kubectl.run("exec", "-i", "-n", "lab", "entered", "--", "sh", "-c", script, text="in\n", code=3)
    assert told == "in\nentered\ncommand terminated with exit code 3\n"
    kubectl.run("delete", "pod", "-n", "lab", "entered")  # the agent runs four at once


def test_explain_reads_the_schemas(kubectl: Kubectl) -> None:
    assert "FIELD: limits <map[string]Quantity>" in kubectl.run("explain", "pod.spec.containers.resources.limits")
    assert "GROUP:      batch.volcano.sh" in kubectl.run(
        "explain", "job.spec", "--api-version=batch.volcano.sh/v1alpha1"
    )


def test_label_patch_and_delete(kubectl: Kubectl) -> None:
    kubectl.run("create", "configmap", "-n", "lab", "brief")
    kubectl.run("label", "cm", "-n", "lab", "brief", "a=b")
    kubectl.run(
        "patch", "cm", "-n", "lab", "brief", "--type=json", "-p", '[{"op":"add","path":"/data","value":{"k":"v"}}]'
    )
    found = kubectl.get("cm", "-n", "lab", "brief")
    assert (found["metadata"]["labels"], found["data"]) == ({"a": "b"}, {"k": "v"})
    kubectl.run("delete", "cm", "-n", "lab", "brief")
    assert "NotFound" in kubectl.run("get", "cm", "-n", "lab", "brief", code=1)


def test_drain_cordons_and_evicts(kubectl: Kubectl, node: str) -> None:
    running_pod(kubectl, "moved", node)
    assert kubectl.run("cordon", node) == f"node/{node} cordoned\n"
    assert "SchedulingDisabled" in kubectl.run("get", "node", node)
    told = kubectl.run("drain", node, "--force", "--ignore-daemonsets", "--timeout=50s")
    assert "evicting pod lab/moved" in told
    assert told.endswith(f"node/{node} drained\n")
    assert "NotFound" in kubectl.run("get", "pod", "-n", "lab", "moved", code=1)
    assert kubectl.run("uncordon", node) == f"node/{node} uncordoned\n"


def logs_of_site(kubectl: Kubectl) -> set[str]:
    """The words of all its pods, once those of the revision before are gone: kubectl lists pods, then asks each."""
    eventually(lambda: len(kubectl.get("pods", "-n", "lab", "-l", "app=site")["items"]) == 2)
    return set(kubectl.run("logs", "-n", "lab", "-l", "app=site").split())


def test_rollout_status_history_and_undo(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", text=DEPLOYMENT.format(name="site", replicas=2, words="one"))
    assert "successfully rolled out" in kubectl.run(
        "rollout", "status", "-n", "lab", "deployment/site", "--timeout=50s"
    )
    kubectl.run("apply", "-f", "-", text=DEPLOYMENT.format(name="site", replicas=2, words="two"))
    # How far it has come when it is first asked is a matter of chance.
    told = kubectl.run("rollout", "status", "-n", "lab", "deployment/site", "--timeout=50s")
    assert told.endswith('deployment "site" successfully rolled out\n')
    assert logs_of_site(kubectl) == {"two"}
    history = kubectl.run("rollout", "history", "-n", "lab", "deploy/site").split("\n")
    assert [line.split()[0] for line in history[2:4]] == ["1", "2"]
    assert kubectl.run("rollout", "undo", "-n", "lab", "deployment/site").endswith("deployment.apps/site rolled back\n")
    kubectl.run("rollout", "status", "-n", "lab", "deployment/site", "--timeout=50s")
    assert logs_of_site(kubectl) == {"one"}
    notes = kubectl.get("deploy", "-n", "lab", "site")["metadata"]["annotations"]
    assert notes["deployment.kubernetes.io/revision"] == "3"


def test_scale_and_the_columns_of_deployments(kubectl: Kubectl) -> None:
    kubectl.run("create", "deployment", "-n", "lab", "wide", "--image=maas/shell:1", "--", "sleep", "1000")
    assert kubectl.run("scale", "-n", "lab", "deployment/wide", "--replicas=2") == "deployment.apps/wide scaled\n"
    kubectl.run("wait", "-n", "lab", "deploy/wide", "--for=jsonpath={.status.availableReplicas}=2", "--timeout=50s")
    head, row = kubectl.run("get", "deploy", "-n", "lab", "wide", "-o", "wide").strip().split("\n")
    assert head.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row.split()[:4] + row.split()[5:] == ["wide", "2/2", "2", "2", "shell", "maas/shell:1", "app=wide"]
    assert "2 desired | 2 updated | 2 total | 2 available" in kubectl.run("describe", "deploy", "-n", "lab", "wide")


def test_wait_for_a_job(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", text=JOB)
    assert kubectl.run("wait", "-n", "lab", "job/sums", "--for=condition=complete", "--timeout=50s").endswith("met\n")
    assert kubectl.run("get", "job", "-n", "lab", "sums").split("\n")[1].split()[:3] == ["sums", "Complete", "2/2"]
    assert kubectl.run("logs", "-n", "lab", "-l", "job-name=sums") == "42\n42\n"


def test_drain_waits_for_a_budget(kubectl: Kubectl, node: str) -> None:
    pinned = DEPLOYMENT.format(name="guarded", replicas=1, words="x")
    pinned = pinned.replace(
        "      terminationGrace", f"      nodeSelector: {{kubernetes.io/hostname: {node}}}\n      terminationGrace"
    )
    kubectl.run("apply", "-f", "-", text=pinned + "---" + BUDGET)
    kubectl.run("rollout", "status", "-n", "lab", "deployment/guarded", "--timeout=50s")
    kubectl.run("wait", "-n", "lab", "pdb/guard", "--for=jsonpath={.status.expectedPods}=1", "--timeout=50s")
    told = kubectl.run("drain", node, "--ignore-daemonsets", "--force", "--timeout=7s", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in told
    kubectl.run("delete", "pdb", "-n", "lab", "guard")
    assert kubectl.run("drain", node, "--ignore-daemonsets", "--force", "--timeout=50s").endswith("drained\n")
    pending = kubectl.get("pods", "-n", "lab", "-l", "app=guarded")["items"][0]
    assert "were unschedulable" in str(pending["status"].get("conditions")) or not pending["spec"].get("nodeName")
    kubectl.run("uncordon", node)
    kubectl.run("rollout", "status", "-n", "lab", "deployment/guarded", "--timeout=50s")
