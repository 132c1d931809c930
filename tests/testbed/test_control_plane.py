"""The real control plane stands, keeps, and goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.home import Home
from deploy.local.program import NotReady, Program, wait_until
from deploy.local.stack import TREE
from deploy.testbed import SERVER_ONLY, ControlPlane, Parts, control_plane
from deploy.testbed.processes import Processes
from tests.needs import require

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]  # nothing may be built yet

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
CONTAINER = {"name": "main", "image": "maas/shell:1", "command": ["sh", "-c", "echo from a process; sleep 60"]}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    require("apiserver")
    with control_plane(tmp_path_factory.mktemp("plane"), SERVER_ONLY) as running:
        yield running


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(TREE / ".venv/bin/kubectl"), f"--kubeconfig={plane.kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def eventually(seconds: float, what: str, seen: Any) -> None:
    def check() -> None:
        if not seen():
            raise NotReady(what)

    wait_until(check, seconds)


def test_what_it_holds_outlives_kill_9(plane: ControlPlane) -> None:
    with plane.api() as api:
        api.apply("/api/v1/namespaces/kept", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}})
    plane.restart("kube-apiserver")
    plane.restart("etcd")
    assert kubectl(plane, "get", "namespace", "kept", "-o", "name") == "namespace/kept\n"


def test_two_stand_side_by_side(plane: ControlPlane, tmp_path: Path) -> None:
    with control_plane(tmp_path, Parts(controllers=False, scheduler=False, fleet=None, crds=())) as other:
        with other.api() as api:
            api.apply(
                "/api/v1/namespaces/mine", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
            )
        assert "mine" in kubectl(other, "get", "namespaces")
        assert "mine" not in kubectl(plane, "get", "namespaces")


def test_volcano_and_its_neighbours_are_judged_by_their_own_schemas(plane: ControlPlane) -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvailable": "x"},
    }
    done = subprocess.run(
        [str(TREE / ".venv/bin/kubectl"), f"--kubeconfig={plane.kubeconfig}", "create", "-f", "-"],
        input=json.dumps(job), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "spec.minAvailable in body must be of type integer" in done.stderr
    groups = {line.partition("/")[0] for line in kubectl(plane, "api-versions").split()}
    assert groups >= {
        "batch.volcano.sh", "networking.istio.io", "gateway.networking.k8s.io", "ray.io", "kubeflow.org",
        "monitoring.coreos.com",
    }  # fmt: skip


def test_our_node_agent_plays_a_node_that_kwok_leaves_alone(tmp_path: Path) -> None:
    """Its logs come by way of the real API server, which asks over TLS."""
    require("apiserver")
    theirs, ours = ({"prefix": name, "count": 1, "capacity": {"cpu": "4", "pods": "9"}} for name in ("kwok", "ours"))
    for name, pool in (("theirs", theirs), ("ours", ours)):
        (tmp_path / f"{name}.json").write_text(json.dumps([pool]))
    agent = (sys.executable, "-m", "apps.localcluster.nodeagent", "--tls", f"--fleet={tmp_path / 'ours.json'}")
    home = Home(tmp_path / "agent")
    home.prepare()
    processes = Processes(home)
    folder = f"--dir={tmp_path / 'nodes'}"
    with control_plane(tmp_path / "plane", Parts(fleet=tmp_path / "theirs.json", crds=())) as plane:
        command = (*agent, folder, f"--kubeconfig={plane.kubeconfig}")
        processes.start(Program("agent", "node agent", command, None, {"PYTHONPATH": str(TREE)}))
        try:
            eventually(60, "two nodes ready", lambda: kubectl(plane, "get", "nodes").count(" Ready ") == 2)
            for node in ("kwok-0000", "ours-0000"):
                pod = POD | {"metadata": {"name": node}, "spec": {"nodeName": node, "containers": [CONTAINER]}}
                with plane.api() as api:
                    eventually(30, "account", lambda: "default" in kubectl(plane, "get", "serviceaccounts"))
                    api.apply(f"/api/v1/namespaces/default/pods/{node}", pod)
            eventually(60, "both run", lambda: kubectl(plane, "get", "pods").count("Running") == 2)
            assert kubectl(plane, "logs", "ours-0000") == "from a process\n"
            assert kubectl(plane, "logs", "kwok-0000") == ""
        finally:
            processes.stop()
            subprocess.run([*agent[:3], "--end", folder], cwd=TREE, check=True)


def test_the_next_start_goes_on_where_it_was(tmp_path: Path) -> None:
    require("apiserver")
    (tmp_path / "fleet.json").write_text('[{"prefix": "cpu", "count": 1, "capacity": {"cpu": "4", "pods": "9"}}]')
    for name in ("first", "second"):
        with (
            control_plane(tmp_path / "plane", Parts(fleet=tmp_path / "fleet.json", crds=())) as plane,
            plane.api() as api,
        ):
            eventually(30, "account", lambda plane=plane: "default" in kubectl(plane, "get", "serviceaccounts"))
            pod = POD | {"metadata": {"name": name}, "spec": {"nodeName": "cpu-0000", "containers": [CONTAINER]}}
            api.apply(f"/api/v1/namespaces/default/pods/{name}", pod)
            eventually(60, "it runs", lambda plane=plane, name=name: "Running" in kubectl(plane, "get", "pod", name))
    assert plane.left_out == {}


def test_up_gives_a_kubeconfig_and_down_leaves_nothing_running(tmp_path: Path) -> None:
    require("apiserver")

    def testbed(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deploy.testbed", *arguments, "--dir", str(tmp_path / "one")]
        return subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)

    def left() -> list[str]:
        lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if f"{tmp_path}/one/" in line]

    up = testbed("up", "--bare", "--crds", "")
    assert up.stdout == f"{tmp_path}/one/kubeconfig\n", up.stderr
    assert os.stat(up.stdout.strip()).st_mode & 0o077 == 0  # noqa: PTH116
    try:
        assert "it runs already" in testbed("up").stderr
        assert "kube-apiserver" in testbed("status").stdout
    finally:
        assert testbed("down", "--wipe").returncode == 0
    assert left() == []
    assert not (tmp_path / "one").exists()
    assert testbed("status").returncode == 1
