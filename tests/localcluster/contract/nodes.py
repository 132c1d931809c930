"""What runs on our node agent, under the small API server and under a real one: fixtures."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.testbed import SERVER_ONLY, control_plane
from deploy.testbed.kubernetes import node_client
from tests.localcluster.contract.conftest import MARKS
from tests.localcluster.test_nodeagent import Agent, Cluster, wait_for
from tests.needs import require
from tests.small_cluster import small_cluster

Object = dict[str, Any]
KUBECTL = str(Path(sys.executable).with_name("kubectl"))
STAY = ("sh", "-c", "echo up; exec sleep 100")


@dataclass(frozen=True)
class Server:
    """An API server, and the certificate that vouches for it at nodes."""

    kubeconfig: Path
    client_ca: Path


@contextmanager
def small(folder: Path) -> Iterator[Server]:
    with small_cluster(folder) as running:
        yield Server(running.kubeconfig, folder / "api" / "ca.crt")


@contextmanager
def real(folder: Path) -> Iterator[Server]:
    require("apiserver")
    with control_plane(folder, SERVER_ONLY) as plane:
        yield Server(plane.kubeconfig, node_client(plane.home)[0])


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {"small": small, "apiserver": real}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=MARKS.get(name, ())) for name in SERVERS])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with SERVERS[request.param](tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def agent(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("pods") / "dir"
    one = Agent(server.kubeconfig, folder, "--client-ca", str(server.client_ca), "--max", "16")
    yield one
    one.end()


@pytest.fixture
def pods(server: Server, agent: Agent) -> Iterator[Cluster]:
    name = "p" + base64.b32encode(os.urandom(5)).decode().lower()
    one = Cluster(server.kubeconfig, name)
    one.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    wait_for(lambda: one.http.get(one.path("serviceaccounts", "default")).status_code == 200)
    wait_for(lambda: one.http.get("/api/v1/nodes/test-0001").status_code == 200)
    yield one
    for pod in one.send("GET", one.path("pods"))["items"]:
        one.delete("pods", pod["metadata"]["name"], gracePeriodSeconds=0)
    one.send("DELETE", f"/api/v1/namespaces/{name}", ok=(200, 202, 409))
    one.http.close()


def log(pods: Cluster, name: str, **query: str) -> str:
    """By way of the API server."""
    answer = pods.http.get(pods.path("pods", name) + "/log", params=query, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.text


def entry(pods: Cluster, name: str, container: str = "main") -> Object:
    seen = pods.pod(name).get("status", {})
    entries = [*(seen.get("containerStatuses") or ()), *(seen.get("initContainerStatuses") or ())]
    return next((each for each in entries if each["name"] == container), {})


def condition(pods: Cluster, name: str, kind: str = "Ready") -> str:
    found = pods.pod(name).get("status", {}).get("conditions") or ()
    return next((each["status"] for each in found if each["type"] == kind), "")


def said(pods: Cluster, name: str, reason: str, text: str) -> None:
    """Wait for an event."""
    wait_for(lambda: [e for e in pods.events(name) if e["reason"] == reason and text in e["message"]])


@dataclass(frozen=True)
class Kubectl:
    server: Server
    namespace: str
    home: Path

    @property
    def head(self) -> list[str]:
        return [KUBECTL, f"--kubeconfig={self.server.kubeconfig}", f"--cache-dir={self.home}", f"-n={self.namespace}"]

    def __call__(self, *arguments: str, text: str | None = None, token: str = "") -> subprocess.CompletedProcess[str]:
        head = [*self.head, *([f"--token={token}"] if token else [])]
        return subprocess.run([*head, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def kubectl(server: Server, pods: Cluster, tmp_path: Path) -> Kubectl:
    return Kubectl(server, pods.namespace, tmp_path)


@pytest.fixture
def shell(pods: Cluster) -> str:
    pods.run("shell", *STAY)
    wait_for(lambda: "running" in pods.state("shell"))
    return "shell"
