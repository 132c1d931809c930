"""The nodes of a fleet file, as the API knows them. Pure.

A fleet file is a list of pools: `prefix`, `count`, `labels`, `capacity`, and `taints` if any; nodes are
`prefix-0000`, `prefix-0001` and so on.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Object = dict[str, Any]
AGENT_LABEL = {"localcluster/agent": "nodeagent"}
"""Marks our nodes. Other agents that play nodes (KWOK) take those with their own label or annotation, so not these."""
HOST_IP = "127.0.0.1"
VERSION = "v1.36.1"
LEASE_SECONDS = 40
FEATURES = ["ExtendWebSocketsToKubelet"]
"""What a kube-apiserver has to know of the node: it takes WebSockets of exec as they come, without SPDY between."""


@dataclass(frozen=True)
class Node:
    name: str
    labels: dict[str, str]
    capacity: dict[str, str]
    taints: list[Object] = field(default_factory=list)

    def object(self) -> Object:
        """The Node to create; its status is written apart."""
        spec = {"taints": self.taints} if self.taints else {}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": spec,
        }


def load(path: Path) -> dict[str, Node]:
    """Nodes by name. Raises OSError, ValueError, KeyError."""
    nodes = {}
    for pool in json.loads(path.read_text()):
        for number in range(pool["count"]):
            name = f"{pool['prefix']}-{number:04d}"
            labels = {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture(),
                **pool.get("labels", {}),
                **AGENT_LABEL,
            }
            nodes[name] = Node(name, labels, pool["capacity"], pool.get("taints", []))
    return nodes


def architecture() -> str:
    """This machine's, by Kubernetes' name."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def conditions(before: list[Object], now: str, refresh: bool) -> list[Object]:
    """The node's conditions with ours healthy. Those of others stay; heartbeat times move only with `refresh`."""
    wanted = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    known = {condition["type"]: condition for condition in before}
    result = [condition for condition in before if condition["type"] not in wanted]
    for kind, (value, reason, message) in wanted.items():
        old = known.get(kind, {})
        same = old.get("status") == value
        result.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": old.get("lastHeartbeatTime", now) if same and not refresh else now,
                "lastTransitionTime": old.get("lastTransitionTime", now) if same else now,
            }
        )
    return result


def status(node: Node, before: list[Object], port: int, now: str, refresh: bool) -> Object:
    """The node's status; `port` is where its logs are served."""
    return {
        "capacity": node.capacity,
        "allocatable": node.capacity,
        "conditions": conditions(before, now, refresh),
        "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": node.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": _info(node.name),
        "declaredFeatures": FEATURES,
    }


def _info(name: str) -> Object:
    number = hashlib.sha256(name.encode()).hexdigest()[:32]
    return {
        "machineID": number,
        "systemUUID": number,
        "bootID": number,
        "kernelVersion": platform.release(),
        "osImage": "localcluster",
        "containerRuntimeVersion": "process://1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": VERSION,
        "operatingSystem": "linux",
        "architecture": architecture(),
    }


def lease(name: str, uid: str, now: str) -> Object:
    """The node's heartbeat. `now` is RFC 3339 with at most six fractional digits."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
    }
