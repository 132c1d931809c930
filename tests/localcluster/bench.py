"""A cluster, real or small, with one node that a test plays."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx

Object = dict[str, Any]

NODE = "bench"
FATE = "example.com/fate"
"""Annotation of a pod: the phase it is to get, Running without it; Pending leaves it as it is."""
REVISION = "deployment.kubernetes.io/revision"
MERGE = {"Content-Type": "application/merge-patch+json"}
PATIENCE = 40
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Bench:
    """A cluster, and a namespace in it."""

    def __init__(self, http: httpx.Client, namespace: str = "") -> None:
        self.http, self.namespace = http, namespace

    def path(self, resource: str, name: str = "") -> str:
        plural, _, group = resource.partition(".")
        head = f"/apis/{group}/v1" if group else "/api/v1"
        return f"{head}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def ask(self, method: str, path: str, body: Object | None = None, status: int = 0, **more: Any) -> Object:
        answer = self.http.request(method, path, json=body, **more)
        assert answer.status_code == status or (not status and answer.status_code < 300), answer.text
        found: Object = answer.json()
        return found

    def make(self, resource: str, name: str, spec: Object | None = None, **more: Any) -> Object:
        body = {"metadata": {"name": name} | more.pop("metadata", {})} | ({} if spec is None else {"spec": spec}) | more
        return self.ask("POST", self.path(resource), body)

    def get(self, resource: str, name: str) -> Object:
        return self.ask("GET", self.path(resource, name))

    def list(self, resource: str, labels: str = "") -> list[Object]:
        found: list[Object] = self.ask("GET", self.path(resource), params={"labelSelector": labels})["items"]
        return found

    def patch(self, resource: str, name: str, change: Object, below: str = "") -> Object:
        return self.ask("PATCH", self.path(resource, name) + below, change, headers=MERGE)

    def delete(self, resource: str, name: str, **options: Any) -> Object:
        return self.ask("DELETE", self.path(resource, name), options or None)

    def gone(self, resource: str, name: str) -> bool:
        return self.http.get(self.path(resource, name)).status_code == 404

    def sets(self) -> dict[str, Object]:
        """ReplicaSets by revision."""
        return {each["metadata"]["annotations"][REVISION]: each for each in self.list("replicasets.apps")}


def eventually(seen: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := seen()):
        assert time.monotonic() < deadline, "waited in vain"
        threading.Event().wait(0.05)
    return found


class Kubelet(threading.Thread):
    """Plays the node until `stop` is set."""

    def __init__(self, http: httpx.Client) -> None:
        super().__init__(daemon=True)
        self.http, self.stop, self.beaten = http, threading.Event(), 0.0

    def run(self) -> None:
        while not self.stop.wait(0.05):
            try:
                self._look()
            except httpx.TransportError:
                pass  # the API server is down just now

    def _look(self) -> None:
        if time.monotonic() > self.beaten + 5:
            spec = {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
            self.http.patch(f"{LEASES}/{NODE}", json={"spec": spec}, headers=MERGE)
            self.beaten = time.monotonic()
        for pod in self.http.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={NODE}"}).json()["items"]:
            self._play(pod)

    def _play(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        fate = (metadata.get("annotations") or {}).get(FATE, "Running")
        if "deletionTimestamp" in metadata:
            if metadata.get("deletionGracePeriodSeconds"):
                self.http.request("DELETE", path, json={"gracePeriodSeconds": 0})
        elif pod["status"]["phase"] not in ("Pending", "Running") or fate in ("Pending", pod["status"]["phase"]):
            return
        else:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": str(fate == "Running"), "lastTransitionTime": now}
            state = {"running": {}} if fate == "Running" else {"terminated": {"exitCode": 0, "finishedAt": now}}
            container = {"name": "main", "image": "", "imageID": "", "ready": fate == "Running", "restartCount": 0}
            status = {"phase": fate, "conditions": [ready], "containerStatuses": [container | {"state": state}]}
            self.http.patch(path + "/status", json={"status": status}, headers=MERGE)


@contextmanager
def played(cluster: Any) -> Iterator[httpx.Client]:
    """A client of a cluster whose only node is played until the block ends."""
    trust = ssl.create_default_context(cadata=cluster.ca_pem)
    headers = {"Authorization": f"Bearer {cluster.token}"}
    with httpx.Client(base_url=cluster.server, verify=trust, headers=headers, trust_env=False, timeout=30) as http:
        _join(http)
        kubelet = Kubelet(http)
        kubelet.start()
        yield http
        kubelet.stop.set()
        kubelet.join()


def _join(http: httpx.Client) -> None:
    """Give the cluster the node that is played."""
    ready = {"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    sizes = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    node: Object = {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
    node["status"] = {"conditions": [ready], "allocatable": sizes, "capacity": sizes}
    assert http.post("/api/v1/nodes", json=node).status_code == 201
    eventually(lambda: http.get("/api/v1/namespaces/kube-node-lease").status_code == 200)
    lease = {"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40}}
    assert http.post(LEASES, json=lease).status_code == 201
