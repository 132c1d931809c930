"""kube-scheduler for plain pods: those that name `default-scheduler`, or nobody."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Iterable
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.store import Event, Record
from apps.localcluster.controllers.base import Cluster, Controller
from apps.localcluster.controllers.fitting import CROWDED, HELPLESS, Memory, Node, Pod, View, summary
from apps.localcluster.controllers.pods import ENDED, condition, now, set_condition

Object = dict[str, Any]

NAME = "default-scheduler"
ALL = ("all",)
CLAIMS = "persistentvolumeclaims"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Scheduler(Controller):
    """Looks at all pods that wait at once, the most important first."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._memory = Memory()
        self._waiting: dict[int, Pod] = {}
        """Pods to be placed, by version."""
        self._judged: set[int] = set()
        """Versions of those that fit nowhere and say so: nobody looks again before something comes or goes."""

    def first(self) -> Iterable[str]:
        self._judged.clear()
        return ALL

    def stirred(self, event: Event) -> Iterable[str]:
        record, before = event.record, event.before
        if record.resource == "pods":
            placed = record.fields["spec.nodeName"]
            freed = bool(placed) and (event.type == "DELETED" or record.fields["status.phase"] in ENDED)
            if not freed:
                return ALL if not placed and record.fields["spec.schedulerName"] == NAME else ()
        elif record.resource == "nodes":
            if before is not None and _offer(before) == _offer(record):
                return ()
        elif record.resource != CLAIMS or event.type != "ADDED":
            return ()
        return self.first()

    async def look(self, key: str) -> None:
        records = self.store.select("pods")
        self._waiting = {
            each.version: self._waiting.get(each.version) or Pod.read(each)
            for each in records
            if each.version in self._waiting or _waits(each)
        }
        self._judged &= self._waiting.keys()
        waiting = [pod for version, pod in self._waiting.items() if version not in self._judged]
        view = View(self.store, self._memory)
        for pod in sorted(waiting, key=lambda pod: (-pod.priority, pod.born, pod.record.key)):
            version = self.store.version
            await asyncio.sleep(0)  # let requests in between
            if self.store.version != version:
                view = View(self.store, self._memory)
            if self.store.get("pods", pod.record.key) is not pod.record:
                continue  # it has changed, and is looked at again
            if (missing := self._missing_claim(pod)) is not None:
                told = f'persistentvolumeclaim "{missing}" not found. not found'
                self._judge(pod, await self._fail(pod, f"0/{len(view.nodes)} nodes are available: {told}"))
                continue
            faults = {node.name: view.faults(pod, node) for node in view.nodes}
            fitting = [node for node in view.nodes if not faults[node.name]]
            if fitting:
                await self._bind(pod, min(fitting, key=lambda node: (node.load(), node.name)))
            else:
                await self._refuse(pod, view, faults)

    def _missing_claim(self, pod: Pod) -> str | None:
        sources = (each.get("persistentVolumeClaim") for each in pod.item["spec"].get("volumes") or ())
        names = [each["claimName"] for each in sources if each]
        space = pod.record.key[0]
        return next((name for name in names if self.store.get(CLAIMS, (space, name)) is None), None)

    async def _bind(self, pod: Pod, node: Node) -> None:
        item = pod.item
        item["spec"]["nodeName"] = node.name
        item["status"].pop("nominatedNodeName", None)
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": meta.now()}
        set_condition(item["status"], scheduled)
        pod = Pod.read(self.store.put("pods", pod.record.key, item, pod.record.version))
        node.add(pod)
        space, name = pod.record.key
        told = f"Successfully assigned {space}/{name} to {node.name}"
        await self._tell(pod.record, "Normal", "Scheduled", "Binding", told)

    async def _refuse(self, pod: Pod, view: View, faults: dict[str, list[str]]) -> None:
        """Make room where less important pods are; say why there is none."""
        helpless = {node.name for node in view.nodes if _is_helpless(pod, node, faults[node.name])}
        victims = {node.name: self._victims(pod, view, node) for node in view.nodes if node.name not in helpless}
        choices = [(each, node) for node in view.nodes if (each := victims.get(node.name))]
        head, number = summary(faults.values(), len(faults)), len(faults)
        if not choices:
            words = [[NOT_HELPFUL if name in helpless else NO_VICTIMS] for name in faults]
            told = f"{head} no new claims to deallocate, preemption: {summary(words, number)}"
            self._judge(pod, await self._fail(pod, told))
            return
        chosen, node = min(choices, key=lambda choice: (max(v.priority for v in choice[0]), len(choice[0])))
        record = await self._fail(pod, head)
        if record is not None:
            item = record.load()
            item["status"]["nominatedNodeName"] = node.name
            await self.cluster.update(record, item, "status")
        for victim in chosen:
            await self._evict(victim, node)
            node.remove(victim)

    def _victims(self, pod: Pod, view: View, node: Node) -> list[Pod]:
        """The pods of lower priority whose going would make room, as few as will do; empty when there are none."""
        if pod.item["spec"].get("preemptionPolicy") == "Never":
            return []
        lower = sorted((each for each in node.pods if each.priority < pod.priority), key=lambda each: -each.priority)
        for each in lower:
            node.remove(each)
        enough = not view.faults(pod, node)
        going = [] if enough else lower
        if enough:
            for each in lower:
                node.add(each)
                if view.faults(pod, node):
                    node.remove(each)
                    going.append(each)
        for each in going:
            node.add(each)
        return going if enough else []

    async def _evict(self, victim: Pod, node: Node) -> None:
        record = self.store.get("pods", victim.record.key)
        if record is None or record.deleting:
            return
        told = f"{NAME}: preempting to accommodate a higher priority pod"
        record = await disrupt(self.cluster, record, "PreemptionByScheduler", told)
        self.cluster.delete(record)
        await self._tell(record, "Normal", "Preempted", "Preempting", f"Preempted by a pod on node {node.name}")

    async def _fail(self, pod: Pod, message: str) -> Record | None:
        """Say in a condition and an event why a pod waits; once, as long as the words stay the same."""
        record = self.store.get("pods", pod.record.key)
        if record is None:
            return None
        item = record.load()
        if condition(item, "PodScheduled").get("message") == message:
            return record
        waits: Object = {"type": "PodScheduled", "status": "False", "lastProbeTime": None}
        waits |= {"observedGeneration": item["metadata"].get("generation", 1), "lastTransitionTime": meta.now()}
        waits |= {"reason": "Unschedulable", "message": message}
        set_condition(item["status"], waits, same=("message",))
        await self.cluster.update(record, item, "status")
        await self._tell(record, "Warning", "FailedScheduling", "Scheduling", message)
        return self.store.get("pods", pod.record.key)

    def _judge(self, pod: Pod, record: Record | None) -> None:
        """Leave a pod alone until something comes or goes; but one that wants to be near others may fit beside them."""
        if record is not None and not pod.terms("podAffinity"):
            self._judged.add(record.version)

    async def _tell(self, about: Record, type_: str, reason: str, action: str, message: str) -> None:
        """An event of the newer kind: with the time it happened, and no count."""
        space, name = about.key
        moment = now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        digest = hashlib.sha256(f"{about.uid} {reason} {moment}".encode()).hexdigest()[:16]
        subject = {"kind": "Pod", "namespace": space, "name": name, "uid": about.uid, "apiVersion": "v1"}
        item = {
            "metadata": {"name": f"{name}.{digest}", "namespace": space},
            "involvedObject": subject | {"resourceVersion": str(about.version)},
            "reason": reason,
            "message": message[:1024],
            "type": type_,
            "eventTime": moment,
            "action": action,
            "reportingComponent": NAME,
            "reportingInstance": f"{NAME}-{socket.gethostname()}",
        }
        try:
            await self.cluster.create("events", item)
        except StatusError:
            pass  # its namespace is going


async def disrupt(cluster: Cluster, record: Record, reason: str, message: str) -> Record:
    """Note on a pod why it is about to be deleted. Gives it as it is then."""
    item = record.load()
    told: Object = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "reason": reason}
    told |= {"observedGeneration": item["metadata"].get("generation", 1), "lastTransitionTime": meta.now()}
    set_condition(item.setdefault("status", {}), told | {"message": message})
    await cluster.update(record, item, "status")
    found = cluster.store.get("pods", record.key)
    assert found is not None
    return found


def _waits(record: Record) -> bool:
    if record.deleting or record.fields["spec.nodeName"] or record.fields["spec.schedulerName"] != NAME:
        return False
    return record.fields["status.phase"] == "Pending" and not record.load()["spec"].get("schedulingGates")


def _offer(node: Record) -> tuple[Any, ...]:
    """What of a node decides who may go there."""
    item = node.load()
    return item["spec"], node.labels, (item.get("status") or {}).get("allocatable")


def _is_helpless(pod: Pod, node: Node, faults: list[str]) -> bool:
    """Whether a node would not do even without its pods."""
    short = [each.removeprefix("Insufficient ") for each in faults if each.startswith("Insufficient ")]
    too_small = any(pod.asks[name] > node.allocatable.get(name, 0) for name in short)
    return too_small or any(each in HELPLESS for each in faults) or (CROWDED in faults and not node.pods)
