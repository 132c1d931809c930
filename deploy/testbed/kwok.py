"""KWOK plays nodes, and pods on them that run nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.local.home import Home
from deploy.local.program import Program, listening
from deploy.testbed import go, programs

LABEL = "type=kwok"
"""KWOK leaves nodes without it alone, and with them the pods there."""

OWN_STAGES = Path(__file__).with_name("stages.yaml")
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat/node-heartbeat.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS, RENEWALS = 40, 20
"""KWOK renews a lease four times before it is over; so many a second, of all nodes, are enough for a small
machine, which else would give nodes up."""


def lease_seconds(nodes: int) -> int:
    """How long a node stays alive without a sign of life, among so many."""
    return max(LEASE_SECONDS, 4 * nodes // RENEWALS)


def stages() -> Path:
    """A folder with KWOK's own stages, from its module. Raises Missing, Failed."""

    def make(target: Path) -> None:
        source = go.folder("kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
        for number, name in enumerate(STAGES):
            (target / f"{number}.yaml").write_bytes((source / name).read_bytes())

    return go.once(go.made_folder("kwok-stages", "kwok", str(STAGES)), make)


def pod_log(home: Home) -> Path:
    """What `kubectl logs` shows of every pod, in CRI format (`TIME stdout F text`). Followers see what is appended."""
    return home.root / "pod-logs" / "ALL.log"


def program(home: Home, kubeconfig: Path, certificate: tuple[Path, Path], nodes: int) -> Program:
    """Plays so many nodes. Raises Missing, Failed."""
    documents = [path.read_text() for path in sorted(stages().iterdir())]
    documents += [OWN_STAGES.read_text(), *map(json.dumps, _configuration(pod_log(home)))]
    configuration = home.root / "kwok.yaml"
    configuration.write_text("\n---\n".join(documents))
    pod_log(home).parent.mkdir(exist_ok=True)
    pod_log(home).touch()
    port = home.ports()["kwok"]
    flags: dict[str, object] = {
        "kubeconfig": kubeconfig,
        "config": configuration,
        "manage-nodes-with-label-selector": LABEL,
        "node-ip": "127.0.0.1",
        "node-port": port,
        "server-address": f"127.0.0.1:{port}",
        "tls-cert-file": certificate[0],
        "tls-private-key-file": certificate[1],
        "node-lease-duration-seconds": lease_seconds(nodes),
    }
    command = (str(programs.find("kwok")), *(f"--{name}={value}" for name, value in flags.items()))
    return Program("kwok", "KWOK", command, listening(port))


def nodes(fleet: Path) -> list[dict[str, Any]]:
    """The nodes of a fleet file: a list of pools with `prefix`, `count`, `labels`, `capacity` and perhaps `taints`."""
    return [
        _node(f"{pool['prefix']}-{number:04d}", pool)
        for pool in json.loads(fleet.read_text())
        for number in range(pool["count"])
    ]


def _node(name: str, pool: dict[str, Any]) -> dict[str, Any]:
    key, value = LABEL.split("=")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, key: value, **pool.get("labels", {})}},
        "spec": {"taints": pool["taints"]} if pool.get("taints") else {},
        "status": {"capacity": pool["capacity"], "allocatable": pool["capacity"]},
    }


def _configuration(log: Path) -> list[dict[str, Any]]:
    """It plays a hundred nodes with a handful of workers, and answers the API server that asks for logs."""
    workers = {"nodeLeaseParallelism": 4, "nodePlayStageParallelism": 4, "podPlayStageParallelism": 8}
    return [
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            "options": {"enableDebuggingHandlers": True, **workers},
        },
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "every-pod"},
            "spec": {"logs": [{"logsFile": str(log), "follow": True}]},
        },
    ]
