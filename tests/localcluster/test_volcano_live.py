"""The stand-in as a program on the small API server; the test plays the nodes' agent."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.localcluster.client import Kubeconfig
from tests.localcluster.test_volcano_scheduler import gang
from tests.localcluster.volcano_cases import Object, nodes
from tests.ports import free_port

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/team-a/commands"
PODS = "/api/v1/namespaces/team-a/pods"
RETRY = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartJob"}]


class Cluster:
    """The API server with the stand-in beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, folder / "admin.kubeconfig"
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        self.over = threading.Event()
        self.agent = threading.Thread(target=self._play, daemon=True)

    def start(self) -> None:
        self._start("apiserver", "--dir", str(self.folder), "--port", str(free_port()))
        wait_for(self.config.exists, 20)
        known = Kubeconfig.load(self.config)
        headers = {"Authorization": f"Bearer {known.token}"}
        self.http = httpx.Client(base_url=known.server, headers=headers, verify=known.verify, trust_env=False)
        wait_for(lambda: self.answers("/readyz"), 20)
        self.start_volcano()
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
        for node in nodes("4x8"):
            self.call("POST", "/api/v1/nodes", node)
            self.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": node["status"]})
        queue = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
        wait_for(lambda: (self.call("GET", queue).get("status") or {}).get("state") == "Open", 20)
        self.agent.start()

    def _start(self, room: str, *arguments: str) -> None:
        log = (self.folder / f"{room}.log").open("ab")
        command = [sys.executable, "-m", f"apps.localcluster.{room}", *arguments]
        self.programs[room] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_volcano(self) -> None:
        self._start("volcano", "--kubeconfig", str(self.config))

    def answers(self, path: str) -> bool:
        try:
            return self.http.get(path).status_code == 200
        except httpx.TransportError:
            return False

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.http.request(method, path, json=body, headers={"Content-Type": kind})
        return {} if answer.status_code == 404 else dict(answer.json())

    def apply(self, job: Object) -> httpx.Response:
        headers = {"Content-Type": "application/apply-patch+yaml"}
        where = f"{JOBS}/{job['metadata']['name']}?fieldManager=portal&force=true"
        return self.http.patch(where, json=job, headers=headers)

    def _play(self) -> None:
        """Pods with a node run at once, pods that are to go are gone at once."""
        while not self.over.wait(0.1):
            for pod in self.call("GET", PODS).get("items", []):
                where = f"{PODS}/{pod['metadata']['name']}"
                if pod["metadata"].get("deletionTimestamp"):
                    self.call("DELETE", f"{where}?gracePeriodSeconds=0")
                elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                    self.call("PATCH", f"{where}/status", {"status": {"phase": "Running"}})

    def create(self, job: Object) -> None:
        created = self.call("POST", JOBS, job)
        assert created["kind"] == "Job", created

    def job(self, name: str) -> tuple[Any, int]:
        """Phase and retryCount."""
        status = self.call("GET", f"{JOBS}/{name}").get("status") or {}
        return (status.get("state") or {}).get("phase"), status.get("retryCount", 0)

    def pods(self, name: str) -> dict[str, tuple[str, str]]:
        """Uid and phase by pod name."""
        found = self.call("GET", f"{PODS}?labelSelector=volcano.sh/job-name={name}")["items"]
        return {p["metadata"]["name"]: (p["metadata"]["uid"], p["status"].get("phase", "")) for p in found}

    def running(self, name: str, count: int) -> bool:
        phases = [phase for _, phase in self.pods(name).values()]
        return phases == ["Running"] * count and self.job(name)[0] == "Running"

    def end(self, pod: str, code: int) -> None:
        phase, state = "Failed" if code else "Succeeded", {"terminated": {"exitCode": code}}
        status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
        self.call("PATCH", f"{PODS}/{pod}/status", {"status": status})

    def command(self, job: str, action: str) -> None:
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job}
        target["uid"] = self.call("GET", f"{JOBS}/{job}")["metadata"]["uid"]
        body = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "target": target, "action": action}
        body["metadata"] = {"name": f"{job}-{action.lower()}", "namespace": "team-a", "ownerReferences": [target]}
        assert self.call("POST", COMMANDS, body)["kind"] == "Command"

    def queue_command(self, queue: str, action: str) -> None:
        target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue}
        target["uid"] = self.call("GET", f"/apis/scheduling.volcano.sh/v1beta1/queues/{queue}")["metadata"]["uid"]
        body = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "target": target, "action": action}
        body["metadata"] = {"name": f"{queue}-{action.lower()}", "namespace": "team-a"}
        assert self.call("POST", COMMANDS, body)["kind"] == "Command"

    def remove(self, name: str) -> None:
        self.call("DELETE", f"{JOBS}/{name}?propagationPolicy=Background")
        wait_for(lambda: not self.pods(name), 10)

    def stop(self) -> None:
        self.over.set()
        if self.agent.is_alive():
            self.agent.join(5)
        for program in reversed(self.programs.values()):
            program.terminate()
        for program in self.programs.values():
            program.wait(5)


def wait_for(holds: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    whole = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        whole.start()
        yield whole
    finally:
        whole.stop()


def test_a_gang_is_placed_whole_or_not_at_all(cluster: Cluster) -> None:
    cluster.create(gang("three", 3, 8))
    wait_for(lambda: cluster.running("three", 3))
    cluster.create(gang("two", 2, 8))
    time.sleep(1.5)
    assert cluster.pods("two") == {}
    assert cluster.job("two") == ("Pending", 0)
    for index in range(3):
        cluster.end(f"three-w-{index}", 0)
    wait_for(lambda: cluster.running("two", 2))
    assert cluster.job("three") == ("Completed", 0)
    cluster.remove("three")
    cluster.remove("two")
    wait_for(lambda: not cluster.call("GET", GROUPS)["items"])


def test_a_failed_rank_restarts_the_gang_and_counts_once(cluster: Cluster) -> None:
    cluster.create(gang("again", 2, 8, policies=RETRY))
    wait_for(lambda: cluster.running("again", 2))
    before = cluster.pods("again")
    for pod in before:
        cluster.end(pod, 1)
    wait_for(lambda: cluster.running("again", 2) and cluster.job("again") == ("Running", 1))
    after = cluster.pods("again")
    assert after.keys() == before.keys()
    assert all(after[pod][0] != before[pod][0] for pod in before)
    cluster.remove("again")


def test_a_suspended_job_holds_nothing_and_resumes(cluster: Cluster) -> None:
    cluster.create(gang("pause", 2, 8))
    wait_for(lambda: cluster.running("pause", 2))
    cluster.command("pause", "AbortJob")
    wait_for(lambda: cluster.job("pause") == ("Aborted", 0))
    assert cluster.pods("pause") == {}
    assert cluster.call("GET", COMMANDS)["items"] == []
    cluster.command("pause", "ResumeJob")
    wait_for(lambda: cluster.running("pause", 2))
    assert cluster.job("pause") == ("Running", 1)
    cluster.remove("pause")


def test_a_full_manifest_may_be_applied_twice(cluster: Cluster) -> None:
    """10-apply-full-twice and 10-apply-twice."""
    full = gang("full", 1, 1, queue="default", minAvailable=1, maxRetry=3)
    full["spec"]["tasks"][0] |= {"minAvailable": 1, "maxRetry": 3}
    assert cluster.apply(full).status_code == 201
    wait_for(lambda: cluster.running("full", 1))
    before = cluster.pods("full")
    assert cluster.apply(full).status_code == 200
    time.sleep(0.5)
    assert cluster.pods("full") == before
    refused = [cluster.apply(gang("bare", 1, 1)) for _ in range(2)][1]
    assert refused.status_code == 400
    assert "job updates may not change fields other than" in refused.json()["message"]
    cluster.remove("full")
    cluster.remove("bare")


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.15, 0.3])
def test_killed_in_the_middle_of_a_restart_it_ends_right(cluster: Cluster, pause: float) -> None:
    cluster.create(gang("killed", 2, 8, policies=RETRY, plugins={"svc": [], "env": []}))
    wait_for(lambda: cluster.running("killed", 2))
    before = cluster.pods("killed")
    cluster.end("killed-w-0", 1)
    time.sleep(pause)
    cluster.programs["volcano"].send_signal(signal.SIGKILL)
    cluster.programs["volcano"].wait(5)
    cluster.start_volcano()
    wait_for(lambda: cluster.running("killed", 2) and cluster.job("killed") == ("Running", 1), 20)
    time.sleep(1)
    assert cluster.job("killed") == ("Running", 1)
    assert not {uid for uid, _ in cluster.pods("killed").values()} & {uid for uid, _ in before.values()}
    cluster.remove("killed")


def test_queues_close_and_open_with_their_parent(cluster: Cluster) -> None:
    queues = "/apis/scheduling.volcano.sh/v1beta1/queues"

    def state(name: str) -> object:
        return (cluster.call("GET", f"{queues}/{name}").get("status") or {}).get("state")

    for name, spec in (("dept", {}), ("team", {"parent": "dept"}), ("own", {"parent": "dept"})):
        api = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        assert cluster.call("POST", queues, {**api, "metadata": {"name": name}, "spec": spec})["kind"] == "Queue"
        wait_for(lambda name=name: state(name) == "Open")
    cluster.queue_command("own", "CloseQueue")
    wait_for(lambda: state("own") == "Closed")
    cluster.queue_command("dept", "CloseQueue")
    wait_for(lambda: [state("dept"), state("team")] == ["Closed", "Closed"])
    cluster.queue_command("team", "OpenQueue")
    wait_for(lambda: not cluster.call("GET", COMMANDS)["items"])
    assert state("team") == "Closed"
    cluster.queue_command("dept", "OpenQueue")
    wait_for(lambda: [state("dept"), state("team")] == ["Open", "Open"])
    assert state("own") == "Closed"


def test_sigterm_ends_it(cluster: Cluster) -> None:
    cluster.programs["volcano"].terminate()
    assert cluster.programs["volcano"].wait(10) == 0
    cluster.start_volcano()
