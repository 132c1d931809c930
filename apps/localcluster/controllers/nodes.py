"""Nodes: those that fall silent, the taints that their state asks for, and pods that may not stay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.store import Event, Key, Record
from apps.localcluster.controllers.base import Cluster, Controller
from apps.localcluster.controllers.fitting import TAINT_KEY, tolerates
from apps.localcluster.controllers.pods import condition, is_ready, set_condition
from apps.localcluster.controllers.scheduler import disrupt

Object = dict[str, Any]

LEASES, LEASE_NAMESPACE = "leases.coordination.k8s.io", "kube-node-lease"
SILENT_SECONDS = 50  # without a lease renewed or a condition reported
STARTUP_SECONDS = 60  # the same for a node that has never reported
ORPHANED_SECONDS = 40  # how long pods outlive their node
WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
OWN_KEYS = {*TAINTS.values(), TAINT_KEY}
FORBIDDING, EXPELLING = "NoSchedule", "NoExecute"


class Nodes(Controller):
    """Keeps the conditions and taints of nodes true."""

    resource = "nodes"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._heard: dict[str, tuple[Any, float]] = {}
        """What each node has said last, and when; by this process's clock, so that nobody is silent at its start."""

    def stirred(self, event: Event) -> Iterable[Key]:
        record = event.record
        if record.resource == LEASES and record.key[0] == LEASE_NAMESPACE:
            return [("", record.key[1])]
        return [record.key] if record.resource == "nodes" else ()

    async def look(self, key: Key) -> float | None:
        now = asyncio.get_running_loop().time()
        record, lease = self.store.get("nodes", key), self.store.get(LEASES, (LEASE_NAMESPACE, key[1]))
        if record is None:
            return self._collect(key[1], now)
        node = record.load()
        renewed = lease.load()["spec"].get("renewTime") if lease else None
        said = (record.uid, renewed, condition(node, "Ready").get("lastHeartbeatTime"))
        if self._heard.get(key[1], (None, 0.0))[0] != said:
            self._heard[key[1]] = (said, now)
        known = condition(node, "Ready")
        left = self._heard[key[1]][1] - now + (SILENT_SECONDS if known else STARTUP_SECONDS)
        if left <= 0 and known.get("status") != "Unknown":
            await self._call_silent(record, node)
            return 0.0
        if await self._taint(record, node):
            return 0.0
        if known and known["status"] != "True":
            await self._mark_pods(key[1])
        return left if left > 0 else None

    async def _call_silent(self, record: Record, node: Object) -> None:
        status = node.setdefault("status", {})
        for type_ in WATCHED:
            known = condition(node, type_)
            words = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
            beat = known.get("lastHeartbeatTime")
            if not known:
                words = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
                beat = node["metadata"]["creationTimestamp"]
            told: Object = {"type": type_, "status": "Unknown", "lastHeartbeatTime": beat}
            told |= {"lastTransitionTime": meta.now(), "reason": words[0], "message": words[1]}
            set_condition(status, told, same=("status",))
        await self.cluster.update(record, node, "status")
        await self.cluster.tell(
            record, "Normal", "NodeNotReady", f"Node {record.key[1]} status is now: NodeNotReady", "node-controller"
        )

    async def _taint(self, record: Record, node: Object) -> bool:
        """Whether anything had to be changed."""
        states = [(each["type"], each["status"]) for each in (node.get("status") or {}).get("conditions") or ()]
        wanted = [(TAINTS[state], FORBIDDING) for state in states if state in TAINTS]
        wanted += [(TAINT_KEY, FORBIDDING)] if node["spec"].get("unschedulable") else []
        wanted += [(TAINTS[state], EXPELLING) for state in states if state[0] == "Ready" and state in TAINTS]
        taints = node["spec"].get("taints") or []
        kept = [each for each in taints if not _is_own(each) or (each["key"], each["effect"]) in wanted]
        there = {(each["key"], each["effect"]) for each in kept}
        new = [
            {"key": key, "effect": effect, "timeAdded": meta.now()}
            for key, effect in wanted
            if (key, effect) not in there
        ]
        if kept == taints and not new:
            return False
        node["spec"]["taints"] = kept + new
        if not node["spec"]["taints"]:
            del node["spec"]["taints"]
        await self.cluster.update(record, node)
        return True

    async def _mark_pods(self, name: str) -> None:
        """Pods on a node that is not ready are not ready either."""
        for pod in _pods_on(self, name):
            item = pod.load()
            if is_ready(item):
                told = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": meta.now()}
                set_condition(item["status"], told, same=("status",))
                await self.cluster.update(pod, item, "status")

    def _collect(self, name: str, now: float) -> float | None:
        """Delete the pods of a node that has gone."""
        pods = _pods_on(self, name)
        if not pods:
            self._heard.pop(name, None)
            return None
        if self._heard.get(name, ("", 0.0))[0] != "gone":
            self._heard[name] = ("gone", now)
        left = self._heard[name][1] + ORPHANED_SECONDS - now
        if left > 0:
            return left
        for pod in pods:
            self.cluster.delete(pod, grace=0)
        return None


class Evictions(Controller):
    """Deletes pods that do not bear a taint of their node, at once or after as long as they bear it."""

    resource = "pods"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._since: dict[str, float] = {}
        """Since when a pod bears what it bears, by uid."""

    def stirred(self, event: Event) -> Iterable[Key]:
        record, before = event.record, event.before
        if record.resource == "pods":
            return [record.key]
        expels = record.resource == "nodes" and any(
            EXPELLING.encode() in each.raw for each in (record, before) if each is not None
        )
        return [pod.key for pod in _pods_on(self, record.key[1])] if expels else ()

    async def look(self, key: Key) -> float | None:
        record = self.store.get("pods", key)
        node = self.store.get("nodes", ("", record.fields["spec.nodeName"])) if record else None
        if record is None or node is None or record.deleting or EXPELLING.encode() not in node.raw:
            if record is not None:
                self._since.pop(record.uid, None)
            return None
        taints = [each for each in node.load()["spec"].get("taints") or () if each["effect"] == EXPELLING]
        if not taints:
            self._since.pop(record.uid, None)
            return None
        tolerations, limits = record.load()["spec"].get("tolerations") or (), []
        for taint in taints:
            bearing = [each for each in tolerations if tolerates(each, taint)]
            if not bearing:
                await self._evict(record)
                return None
            limits += [float(each["tolerationSeconds"]) for each in bearing if "tolerationSeconds" in each]
        if not limits:
            return None
        now = asyncio.get_running_loop().time()
        left = self._since.setdefault(record.uid, now) + min(limits) - now
        if left > 0:
            return left
        await self._evict(record)
        return None

    async def _evict(self, record: Record) -> None:
        self._since.pop(record.uid, None)
        told = f"Marking for deletion Pod {record.key[0]}/{record.key[1]}"
        await self.cluster.tell(record, "Normal", "TaintManagerEviction", told, "taint-eviction-controller")
        message = "Taint manager: deleting due to NoExecute taint"
        self.cluster.delete(await disrupt(self.cluster, record, "DeletionByTaintManager", message))


def _is_own(taint: Object) -> bool:
    return taint["key"] in OWN_KEYS and taint["effect"] in (FORBIDDING, EXPELLING)


def _pods_on(controller: Controller, node: str) -> list[Record]:
    return [each for each in controller.store.select("pods") if each.fields["spec.nodeName"] == node]
