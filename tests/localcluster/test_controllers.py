"""What a cluster does on its own, asked alike of the small cluster and of the real control plane.

One node is played here: its pods run as soon as they are there, unless an annotation says how they fare.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from apps.localcluster.controllers.hashing import template_hash
from deploy.testbed import Parts, control_plane
from tests.localcluster.bench import FATE, MERGE, NODE, Bench, eventually, played
from tests.needs import require
from tests.small_cluster import small_cluster

Object = dict[str, Any]

TAINT = {"key": "example.com/broken", "effect": "NoExecute"}


REAL = pytest.param("real", marks=[pytest.mark.prove, pytest.mark.timeout(1800)])  # it may have to be built first


@pytest.fixture(scope="module", params=["small", REAL])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("controllers")
    if request.param == "real":
        require("apiserver")
    start = small_cluster(folder) if request.param == "small" else control_plane(folder, Parts(fleet=None, crds=()))
    with start as running, played(running) as http:
        yield http


@pytest.fixture
def bench(cluster: httpx.Client, request: pytest.FixtureRequest) -> Iterator[Bench]:
    name = request.node.originalname.replace("_", "-")[:50].strip("-")
    yield open_bench(cluster, name)
    cluster.delete(f"/api/v1/namespaces/{name}")


def open_bench(cluster: httpx.Client, name: str) -> Bench:
    bench = Bench(cluster, name)
    bench.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    eventually(lambda: not bench.gone("serviceaccounts", "default"))
    return bench


def template(fate: str = "Running", image: str = "example/serve:1", **spec: Any) -> Object:
    """Of a pod that fares as said."""
    metadata = {"labels": {"app": "d"}, "annotations": {FATE: fate}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


def deployment(bench: Bench, replicas: int, **spec: Any) -> None:
    """Made, and rolled out."""
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": template()} | spec
    bench.make("deployments.apps", "d", whole)
    eventually(lambda: status(bench).get("availableReplicas") == replicas)
    eventually(lambda: progress(bench)[1] == "NewReplicaSetAvailable")


def status(bench: Bench) -> Object:
    found: Object = bench.get("deployments.apps", "d").get("status", {})
    return found


def progress(bench: Bench) -> tuple[str, str]:
    return progress_in(status(bench))


def progress_in(status: Object) -> tuple[str, str]:
    found = [each for each in status.get("conditions", []) if each["type"] == "Progressing"]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def rolling(surge: int | str, unavailable: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def test_a_rolling_update_stays_within_surge_and_availability(bench: Bench) -> None:
    deployment(bench, 4, strategy=rolling(1, 1))
    bench.patch("deployments.apps", "d", {"spec": {"template": template(image="example/serve:2")}})
    found: Object = {}
    while progress_in(found) != ("True", "NewReplicaSetAvailable") or found["observedGeneration"] != 2:
        assert sum(each["spec"]["replicas"] for each in bench.list("replicasets.apps")) <= 5
        found = status(bench)
        assert found["availableReplicas"] >= 3
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    assert {name: found.get(name) for name in counts} == dict.fromkeys(counts, 4)
    assert "unavailableReplicas" not in found
    eventually(lambda: status(bench)["terminatingReplicas"] == 0)
    sets = bench.sets()
    assert {revision: each["spec"]["replicas"] for revision, each in sets.items()} == {"1": 0, "2": 4}
    new = sets["2"]["metadata"]
    assert {name.removeprefix("deployment.kubernetes.io/"): value for name, value in new["annotations"].items()} == {
        "revision": "2",
        "desired-replicas": "4",
        "max-replicas": "5",
    }
    told = [tuple(each[name] for name in ("type", "status", "reason", "message")) for each in found["conditions"]]
    assert told == [
        ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        ("Progressing", "True", "NewReplicaSetAvailable", f'ReplicaSet "{new["name"]}" has successfully progressed.'),
    ]
    events = [each for each in bench.list("events") if each["involvedObject"]["kind"] == "Deployment"]
    assert {each["reason"] for each in events} == {"ScalingReplicaSet"}
    first, new_name = sets["1"]["metadata"]["name"], new["name"]
    assert {each["message"] for each in events} >= {
        f"Scaled up replica set {first} from 0 to 4",
        f"Scaled up replica set {new_name} from 0 to 1",
        f"Scaled down replica set {first} from 4 to 3",
    }
    hashes = {each["metadata"]["labels"]["pod-template-hash"] for each in bench.list("pods")}
    assert hashes == {sets["2"]["metadata"]["name"].removeprefix("d-")}


def test_a_rollout_that_is_late_leaves_what_serves(bench: Bench) -> None:
    deployment(bench, 4, strategy=rolling(1, 1), progressDeadlineSeconds=2)
    bench.patch("deployments.apps", "d", {"spec": {"template": template("Pending")}})
    eventually(lambda: progress(bench) == ("False", "ProgressDeadlineExceeded"))
    found = status(bench)
    assert (found["replicas"], found["updatedReplicas"], found["availableReplicas"]) == (5, 2, 3)
    # Going back is a new revision of the old ReplicaSet.
    bench.patch("deployments.apps", "d", {"spec": {"template": template()}})
    eventually(lambda: progress(bench) == ("True", "NewReplicaSetAvailable"))
    sets = bench.sets()
    assert {revision: each["spec"]["replicas"] for revision, each in sets.items()} == {"2": 0, "3": 4}
    assert sets["3"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_recreate_ends_all_before_it_begins_any(bench: Bench) -> None:
    deployment(bench, 2, strategy={"type": "Recreate"})
    # A finalizer keeps one old pod from going.
    held = bench.list("pods")[0]["metadata"]["name"]
    bench.patch("pods", held, {"metadata": {"finalizers": ["example.com/hold"]}})
    bench.patch("deployments.apps", "d", {"spec": {"template": template(image="example/serve:2")}})
    eventually(lambda: len(bench.list("pods")) == 1)
    assert list(bench.sets()) == ["1"]
    bench.patch("pods", held, {"metadata": {"finalizers": None}})
    eventually(lambda: status(bench).get("updatedReplicas") == 2)
    assert {revision: each["spec"]["replicas"] for revision, each in bench.sets().items()} == {"1": 0, "2": 2}


def test_a_paused_deployment_scales_and_does_not_roll(bench: Bench) -> None:
    deployment(bench, 1)
    bench.patch("deployments.apps", "d", {"spec": {"paused": True, "template": template(image="example/serve:2")}})
    eventually(lambda: progress(bench) == ("Unknown", "DeploymentPaused"))
    bench.patch("deployments.apps", "d", {"spec": {"replicas": 3}}, "/scale")
    eventually(lambda: status(bench).get("availableReplicas") == 3)
    assert list(bench.sets()) == ["1"]
    assert "updatedReplicas" not in status(bench)
    bench.patch("deployments.apps", "d", {"spec": {"paused": False}})
    eventually(lambda: status(bench).get("updatedReplicas") == 3)


def test_a_rollout_that_is_stuck_scales_in_proportion(bench: Bench) -> None:
    deployment(bench, 10, strategy=rolling(3, 2))
    bench.patch("deployments.apps", "d", {"spec": {"template": template("Pending")}})

    def sizes() -> list[int]:
        return [each["spec"]["replicas"] for _, each in sorted(bench.sets().items())]

    eventually(lambda: sizes() == [8, 5])
    bench.patch("deployments.apps", "d", {"spec": {"replicas": 15}})
    eventually(lambda: sizes() == [11, 7])


def test_a_replica_set_adopts_lets_go_and_gives_up_what_is_not_ready(bench: Bench) -> None:
    stray = template("Pending")
    bench.make("pods", "stray", stray["spec"], metadata=stray["metadata"])
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template()}
    made = bench.make("replicasets.apps", "r", spec)
    eventually(lambda: bench.get("replicasets.apps", "r")["status"].get("readyReplicas") == 1)
    owner = bench.get("pods", "stray")["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    bench.patch("replicasets.apps", "r", {"spec": {"replicas": 1}})
    eventually(lambda: bench.gone("pods", "stray"))
    kept = bench.list("pods")[0]["metadata"]["name"]
    bench.patch("pods", kept, {"metadata": {"labels": {"app": "mine"}}})
    eventually(lambda: len(bench.list("pods", "app=d")) == 1)
    assert "ownerReferences" not in bench.get("pods", kept)["metadata"]


FULL = """
serviceAccountName: someone
nodeSelector: {disk: fast}
terminationGracePeriodSeconds: 5
securityContext: {runAsUser: 1000, fsGroup: 7, seccompProfile: {type: RuntimeDefault}}
tolerations: [{key: gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: null}]
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - {topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: a, operator: In, values: [b, c]}]}}
initContainers: [{name: first, image: example/prep, command: ["true"]}]
containers:
- name: main
  image: example/serve:1
  args: [--port, "8080"]
  ports: [{name: http, containerPort: 8080}]
  env:
  - {name: ONE, value: "1"}
  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  - {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}
  resources: {limits: {cpu: 1500m, memory: 16Gi, nvidia.com/gpu: 2}, requests: {cpu: 500m, memory: 1000Mi}}
  readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 3}
  livenessProbe: {tcpSocket: {port: 8080}}
  lifecycle: {preStop: {exec: {command: [sleep, "1"]}}}
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  volumeMounts: [{name: shm, mountPath: /dev/shm}, {name: conf, mountPath: /etc/conf, readOnly: true}]
volumes:
- {name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}
- {name: conf, configMap: {name: conf}}
- {name: data, persistentVolumeClaim: {claimName: data}}
"""


def test_a_replica_set_is_named_by_the_hash_of_its_template(bench: Bench) -> None:
    body = template() | {"spec": yaml.safe_load(FULL)}
    bench.make("deployments.apps", "d", {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": body})
    (made,) = eventually(lambda: bench.list("replicasets.apps"))
    stored = bench.get("deployments.apps", "d")["spec"]["template"]
    assert made["metadata"]["name"] == "d-" + template_hash(stored, None)


def job(bench: Bench, fate: str, **spec: Any) -> None:
    bench.make("jobs.batch", "j", {"template": template(fate, restartPolicy="Never")} | spec)


def conditions(bench: Bench) -> list[tuple[str, str, str]]:
    found = bench.get("jobs.batch", "j").get("status", {}).get("conditions", [])
    return [(each["type"], each["status"], each["reason"]) for each in found]


def test_a_job_counts_its_pods_once_and_completes(bench: Bench) -> None:
    job(bench, "Succeeded", completions=5, parallelism=2)
    eventually(lambda: ("Complete", "True", "CompletionsReached") in conditions(bench))
    found = bench.get("jobs.batch", "j")["status"]
    assert conditions(bench)[0] == ("SuccessCriteriaMet", "True", "CompletionsReached")
    numbers = {"succeeded": 5, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    assert found.items() >= numbers.items()
    assert not found.keys() & {"active", "failed"}
    pods = bench.list("pods")
    assert len(pods) == 5
    assert not any(each["metadata"].get("finalizers") for each in pods)


def test_a_job_fails_when_more_pods_fail_than_it_allows(bench: Bench) -> None:
    job(bench, "Failed", backoffLimit=0, parallelism=1, completions=2)
    eventually(lambda: ("Failed", "True", "BackoffLimitExceeded") in conditions(bench))
    assert bench.get("jobs.batch", "j")["status"]["failed"] == 1
    assert len(bench.list("pods")) == 1


def test_a_job_that_takes_too_long_is_ended_and_its_pods_with_it(bench: Bench) -> None:
    job(bench, "Running", activeDeadlineSeconds=1)
    eventually(lambda: ("Failed", "True", "DeadlineExceeded") in conditions(bench))
    assert bench.list("pods") == []


def test_a_suspended_job_has_no_pods_and_no_start(bench: Bench) -> None:
    job(bench, "Running")
    eventually(lambda: bench.get("jobs.batch", "j")["status"].get("ready") == 1)
    bench.patch("jobs.batch", "j", {"spec": {"suspend": True}})
    eventually(lambda: ("Suspended", "True", "JobSuspended") in conditions(bench))
    eventually(lambda: bench.list("pods") == [])
    assert not bench.get("jobs.batch", "j")["status"].keys() & {"startTime", "failed", "active"}
    bench.patch("jobs.batch", "j", {"spec": {"suspend": False}})
    eventually(lambda: bench.get("jobs.batch", "j")["status"].get("ready") == 1)
    assert conditions(bench) == [("Suspended", "False", "JobResumed")]


def test_a_job_goes_when_its_time_is_up(bench: Bench) -> None:
    job(bench, "Succeeded", ttlSecondsAfterFinished=1)
    eventually(lambda: bench.gone("jobs.batch", "j"))
    eventually(lambda: bench.list("pods") == [])


def test_pods_that_a_job_leaves_behind_are_free(bench: Bench) -> None:
    job(bench, "Running")
    eventually(lambda: bench.get("jobs.batch", "j")["status"].get("ready") == 1)
    bench.delete("jobs.batch", "j")
    eventually(lambda: bench.gone("jobs.batch", "j"))
    pod = bench.list("pods")[0]["metadata"]
    eventually(lambda: "finalizers" not in bench.get("pods", pod["name"])["metadata"])
    assert "ownerReferences" not in bench.get("pods", pod["name"])["metadata"]


def test_a_budget_lets_go_only_what_it_can_spare(bench: Bench) -> None:
    deployment(bench, 3)
    bench.make("poddisruptionbudgets.policy", "guard", {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "d"}}})

    def counts() -> tuple[int, ...]:
        found = bench.get("poddisruptionbudgets.policy", "guard")["status"]
        return tuple(found[f] for f in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"))

    eventually(lambda: counts() == (3, 2, 3, 1))
    # No new pod comes to life, so that the second eviction finds nothing to spare.
    bench.patch("deployments.apps", "d", {"spec": {"paused": True}})
    (sets,) = bench.list("replicasets.apps")
    held = {"spec": {"template": {"metadata": {"annotations": {FATE: "Pending"}}}}}
    bench.patch("replicasets.apps", sets["metadata"]["name"], held)
    first, second, _ = (each["metadata"]["name"] for each in bench.list("pods"))
    bench.ask("POST", bench.path("pods", first) + "/eviction", {"metadata": {"name": first}})
    refused = bench.ask("POST", bench.path("pods", second) + "/eviction", {"metadata": {"name": second}}, 429)
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"
    eventually(lambda: counts() == (3, 2, 2, 0))


def test_pods_bear_a_taint_as_long_as_they_say(bench: Bench) -> None:
    bearing = {"key": TAINT["key"], "operator": "Exists", "effect": "NoExecute"}
    for name, tolerations in (("never", []), ("briefly", [bearing | {"tolerationSeconds": 3}]), ("always", [bearing])):
        bench.make("pods", name, template(tolerations=tolerations)["spec"])
        eventually(lambda name=name: bench.get("pods", name)["status"]["phase"] == "Running")
    node = f"/api/v1/nodes/{NODE}"
    bench.ask("PATCH", node, {"spec": {"taints": [TAINT], "unschedulable": True}}, headers=MERGE)
    try:
        eventually(lambda: bench.gone("pods", "never"))
        assert not bench.gone("pods", "briefly")
        eventually(lambda: bench.gone("pods", "briefly"))
        taints = {(each["key"], each["effect"]) for each in bench.ask("GET", node)["spec"]["taints"]}
        assert taints == {tuple(TAINT.values()), ("node.kubernetes.io/unschedulable", "NoSchedule")}
        assert bench.get("pods", "always")["status"]["phase"] == "Running"
    finally:
        bench.ask("PATCH", node, {"spec": {"taints": None, "unschedulable": None}}, headers=MERGE)
    eventually(lambda: "taints" not in bench.ask("GET", node)["spec"])


def test_the_more_important_pod_takes_the_place_of_the_less_important(bench: Bench) -> None:
    for name, value in (("low", 1), ("high", 2)):
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        bench.http.post(path, json={"metadata": {"name": name}, "value": value})
    for name in ("low", "high"):
        body = template(priorityClassName=name)
        body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "6"}}
        bench.make("pods", name, body["spec"])
        eventually(lambda name=name: bench.get("pods", name)["spec"].get("nodeName") == NODE)
    eventually(lambda: bench.gone("pods", "low"))


def test_a_token_in_a_secret_lasts_as_long_as_the_secret(bench: Bench) -> None:
    notes = {"kubernetes.io/service-account.name": "default"}
    bench.make("secrets", "t", metadata={"annotations": notes}, type="kubernetes.io/service-account-token")
    token = base64.b64decode(eventually(lambda: bench.get("secrets", "t").get("data", {}).get("token"))).decode()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path, headers = "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"Authorization": f"Bearer {token}"}

    def answered() -> httpx.Response:
        return bench.http.post(path, json=review, headers=headers)

    # kube-apiserver compares with its cached copy of the secret, which may not hold the token yet: 401 until it does.
    found = eventually(lambda: (answer := answered()).status_code != 401 and answer.json())
    assert found["status"]["userInfo"]["username"] == f"system:serviceaccount:{bench.namespace}:default"
    bench.delete("secrets", "t")
    eventually(lambda: answered().status_code == 401)


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as running, played(running) as http:
        bench = open_bench(http, "killed")
        bench.make(
            "jobs.batch",
            "j",
            {"completions": 20, "parallelism": 4, "template": template("Succeeded", restartPolicy="Never")},
        )
        deployment(bench, 6, strategy=rolling(1, 1))
        bench.patch("deployments.apps", "d", {"spec": {"template": template(image="example/serve:2")}})
        for share in (2, 4):
            eventually(lambda share=share: status(bench).get("updatedReplicas", 0) >= share)
            running.kill("apiserver")
            running.start("apiserver")
        eventually(lambda: progress(bench) == ("True", "NewReplicaSetAvailable"))
        assert {revision: each["spec"]["replicas"] for revision, each in bench.sets().items()} == {"1": 0, "2": 6}
        eventually(lambda: ("Complete", "True", "CompletionsReached") in conditions(bench))
        assert bench.get("jobs.batch", "j")["status"]["succeeded"] == 20 == len(bench.list("pods", "job-name=j"))
