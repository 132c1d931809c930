"""The state from which every case starts: the nodes it names, and nothing else of anybody's."""

from __future__ import annotations

import threading
import time

from apps.localcluster.volcano.objects import name
from tests.localcluster.contract.volcano.cluster import MERGE, NAMESPACE, Cluster, Object, phase_of, until, where
from tests.localcluster.volcano_cases import SETUP, created, every_case

PLAYED = {"type": "kwok"}
_SWEPT = (
    "Job",
    "Command",
    "PodGroup",
    "Pod",
    "Service",
    "NetworkPolicy",
    "ResourceQuota",
    "Secret",
    "PersistentVolumeClaim",
    "ConfigMap",
    "Queue",
    "HyperNode",
)
_CLASSES = {name(item) for case in every_case() for item in created(case, "PriorityClass")}
_CONTAINER = {"name": "main", "image": "train:1"}
_PROBE = {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [_CONTAINER]}}}]}
SWEEP_SECONDS = 120
READY_SECONDS = 60


def nodes(fleet: str) -> dict[str, Object]:
    found = {}
    for pool in SETUP["fleets"][fleet]:
        for number in range(pool["count"]):
            label = f"{pool['prefix']}-{number:04d}"
            found[label] = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": label, "labels": PLAYED | {"kubernetes.io/hostname": label} | pool["labels"]},
                "spec": {"taints": pool.get("taints", [])},
                "status": {"capacity": pool["capacity"], "allocatable": pool["capacity"]},
            }
    return found


def ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    fine = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
    taints = (node.get("spec") or {}).get("taints") or []
    return fine and not any(taint["key"].startswith("node.kubernetes.io") for taint in taints)


class Ground:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._nodes: dict[str, Object] = {}

    def prepare(self, fleet: str) -> None:
        """Raises AssertionError where the cluster does not come to it."""
        self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self._sweep()
        for item in self.cluster.list("PriorityClass"):
            if name(item) in _CLASSES:
                self.cluster.delete("PriorityClass", name(item))
        self._open_default()
        self._place(nodes(fleet))
        self.cluster.delete("Event")
        assert until(self._admits, READY_SECONDS), "no job is admitted"

    def is_throwaway(self) -> bool:
        """Whether every node is played by somebody: real ones are not ours to take away."""
        played = [
            PLAYED.items() <= (node["metadata"].get("labels") or {}).items() for node in self.cluster.list("Node")
        ]
        return all(played)

    def spoil(self) -> None:
        """A case has changed nodes."""
        self._nodes = {}

    def _sweep(self) -> None:
        # Jobs first and in peace: a controller whose pods vanish beneath it may trip over the next job of the name.
        self.cluster.delete("Job")
        until(lambda: not self.cluster.list("Pod") and not self.cluster.list("PodGroup"), 3)
        end, left, pause = time.monotonic() + SWEEP_SECONDS, self._left(), threading.Event()
        while left:
            assert time.monotonic() < end, f"these do not go away: {[f'{k}/{name(i)}' for k, i in left[:5]]}"
            for kind, item in left:
                self._remove(kind, item)
            pause.wait(0.2)
            left = self._left()

    def _left(self) -> list[tuple[str, Object]]:
        return [(kind, item) for kind in _SWEPT for item in self.cluster.strangers(kind)]

    def _remove(self, kind: str, item: Object) -> None:
        if item["metadata"].get("finalizers") and kind in ("Job", "Pod"):
            self.cluster.patch(where(kind, name(item)), {"metadata": {"finalizers": None}}, MERGE)
        self.cluster.delete(kind, name(item), grace=0)

    def _admits(self) -> bool:
        """Whether jobs get through admission: its webhooks may just have come up under another certificate."""
        probe = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "probe"},
            "spec": _PROBE,
        }
        return self.cluster.exchange.ask("POST", f"{where('Job')}?dryRun=All", probe).status == 201

    def _open_default(self) -> None:
        queue = self.cluster.get("Queue", "default")
        if phase_of("Queue", queue) in ("Closed", "Closing"):
            target = {key: queue[key] for key in ("apiVersion", "kind")}
            target |= {key: queue["metadata"][key] for key in ("name", "uid")}
            metadata = {"name": "open-default", "namespace": NAMESPACE, "ownerReferences": [target]}
            command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": "OpenQueue"}
            self.cluster.create(command | {"metadata": metadata, "target": target})
        opened = until(lambda: phase_of("Queue", self.cluster.get("Queue", "default")) == "Open", 15)
        assert opened, "the default queue is not open"

    def _place(self, wanted: dict[str, Object]) -> None:
        if self._nodes == wanted:
            return
        # Nodes that are as wanted stay: KWOK is slow to play pods of a node that comes back under its name.
        kept = {label for label, node in self._nodes.items() if wanted.get(label) == node}
        self._nodes = {}
        for label in [name(node) for node in self.cluster.list("Node") if name(node) not in kept]:
            self.cluster.delete("Node", label)
        until(lambda: {name(node) for node in self.cluster.list("Node")} <= kept, 15)
        threading.Event().wait(1)
        for label in wanted.keys() - kept:
            self.cluster.create(wanted[label])
            self.cluster.patch(where("Node", label, "status"), {"status": wanted[label]["status"]})
        all_ready = until(lambda: sum(map(ready, self.cluster.list("Node"))) == len(wanted), READY_SECONDS)
        assert all_ready, "the nodes do not become ready"
        self._nodes = wanted
