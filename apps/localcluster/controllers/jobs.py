"""Jobs: pods that end, counted until enough have ended well or too many badly.

A pod is counted once, whatever happens in between: its uid goes into the status before its finalizer is taken away, and
into the numbers after.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Event, Record
from apps.localcluster.controllers.base import Cluster, Controller, pods_of
from apps.localcluster.controllers.pods import age, condition, create_pod, is_active, is_ending, is_ready

Object = dict[str, Any]
Place = tuple[str, str, str]
"""Resource, namespace, name."""

JOBS = "jobs.batch"
COMPONENT = "job-controller"
OWN_NAME = "kubernetes.io/job-controller"
TRACKED = "batch.kubernetes.io/job-tracking"
BURST = 500
PAUSE, LONGEST_PAUSE = 10, 600  # seconds before a pod that failed is replaced; doubled with each more
REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
TOO_MANY = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LONG = ("DeadlineExceeded", "Job was active longer than specified deadline")


class Jobs(Controller):
    """Looks at jobs, and at pods whose job has gone."""

    def first(self) -> Iterable[Place]:
        jobs, pods = self.store.select(JOBS), self.store.select("pods")
        return [(each.resource, *each.key) for each in (*jobs, *filter(_may_be_tracked, pods))]

    def stirred(self, event: Event) -> Iterable[Place]:
        record = event.record
        if record.resource == JOBS:
            return [(JOBS, *record.key)]
        if record.resource != "pods":
            return ()
        owners = {uid for _, uid in pods_of(event)}
        jobs = self.store.select(JOBS, record.key[0])
        found = [(JOBS, *each.key) for each in jobs if each.uid in owners or not owners]
        return found or ([("pods", *record.key)] if _may_be_tracked(record) else ())

    async def look(self, key: Place) -> float | None:
        resource, *place = key
        record = self.store.get(resource, (place[0], place[1]))
        if record is None:
            return None
        if resource == "pods":
            await self._release(record)
            return None
        item = record.load()
        if item["spec"].get("managedBy", OWN_NAME) != OWN_NAME:
            return None
        for end in (condition(item, "Complete"), condition(item, "Failed")):
            if end.get("status") == "True":
                return self._forget(record, item, end["lastTransitionTime"])
        selector = item["spec"]["selector"]
        pods = await self.cluster.claim("pods", record, lambda labels: matches_labels(selector, labels))
        return await Round(self.cluster, record, pods).step()

    async def _release(self, pod: Record) -> None:
        """Nobody counts a pod any more whose job has gone."""
        item = pod.load()
        owners = {uid for uid in pod.owners if any(each.uid == uid for each in self.store.select(JOBS, pod.key[0]))}
        if not owners and TRACKED in (item["metadata"].get("finalizers") or ()):
            await untrack(self.cluster, pod)

    def _forget(self, record: Record, item: Object, ended: str) -> float | None:
        """Delete a job that has ended long enough ago, if it says how long that is."""
        seconds = item["spec"].get("ttlSecondsAfterFinished")
        if seconds is None or record.deleting:
            return None
        if (left := float(seconds) - age(ended)) > 0:
            return left
        self.cluster.delete(record, "Foreground")
        return None


def _may_be_tracked(pod: Record) -> bool:
    return TRACKED.encode() in pod.raw


async def untrack(cluster: Cluster, pod: Record) -> Record | None:
    """Take the finalizer that holds a pod for being counted. Gives the pod as it is then, None when it has gone."""
    item = pod.load()
    held = item["metadata"].get("finalizers") or []
    if TRACKED not in held:
        return pod
    item["metadata"]["finalizers"] = [each for each in held if each != TRACKED]
    await cluster.update(pod, item)
    return cluster.store.get("pods", pod.key)


class Round:
    """One look at a job and its pods."""

    def __init__(self, cluster: Cluster, record: Record, pods: list[Record]) -> None:
        self.cluster, self.record, self.item = cluster, record, record.load()
        self.spec: Object = self.item["spec"]
        self.status: Object = self.item.setdefault("status", {})
        self.was = deepcopy(self.status)
        self.pods = {each.uid: each for each in pods}
        self.loaded = {each.uid: each.load() for each in pods}
        self.suspended = bool(self.spec.get("suspend"))
        self.fault: StatusError | None = None

    @property
    def active(self) -> list[Record]:
        return [each for each in self.pods.values() if is_active(each)]

    def _is_tracked(self, uid: str) -> bool:
        return uid in self.loaded and TRACKED in (self.loaded[uid]["metadata"].get("finalizers") or ())

    def _count(self, result: str) -> int:
        return int(self.status.get(result, 0)) + len(self.status["uncountedTerminatedPods"].get(result) or ())

    async def step(self) -> float | None:
        """One step. Gives the seconds after which to look again."""
        if "startTime" not in self.status and not self.suspended:
            self.status["startTime"] = meta.now()
        to_free = self._note_ended()
        end, again = self._end()
        if end and end[0] == "FailureTarget":
            await self._give_up(self.active)
        elif not end and not self.record.deleting:
            again = min(filter(None, (again, await self._keep_going())), default=None)
            end = self._reached()
        if end and condition(self.item, end[0]).get("status") != "True":
            self._condition(end[0], "True", *end[1:])
        await self._report(end)
        for pod in to_free:
            await untrack(self.cluster, pod)
        if self.fault is not None:
            raise self.fault
        return again

    def _note_ended(self) -> list[Record]:
        """Count pods whose finalizer has gone, and note those that have ended since. Gives what is to lose it now."""
        noted = self.status.setdefault("uncountedTerminatedPods", {})
        for result in ("succeeded", "failed"):
            counted = [uid for uid in noted.get(result, ()) if not self._is_tracked(uid)]
            if counted:
                self.status[result] = self.status.get(result, 0) + len(counted)
                noted[result] = [uid for uid in noted[result] if uid not in counted]
        ended = [pod for uid, pod in self.pods.items() if self._is_tracked(uid) and self._result(pod)]
        for pod in ended:
            listed = noted.setdefault(str(self._result(pod)), [])
            if pod.uid not in listed:
                listed.append(pod.uid)
        self.status["uncountedTerminatedPods"] = {name: uids for name, uids in noted.items() if uids}
        return ended

    def _result(self, pod: Record) -> str | None:
        """How a pod has ended. One that is being deleted counts as failed, unless its end is waited for."""
        phase = pod.fields["status.phase"]
        if phase in ("Succeeded", "Failed"):
            return phase.lower()
        waits = self.spec.get("podReplacementPolicy") == "Failed" and phase != "Pending"
        return "failed" if pod.deleting and not waits else None

    def _end(self) -> tuple[tuple[str, str, str] | None, float | None]:
        """(condition, reason, message) of an end that is near, and the seconds until the deadline."""
        for type_ in ("SuccessCriteriaMet", "FailureTarget"):
            if (known := condition(self.item, type_)).get("status") == "True":
                return (type_, known["reason"], known["message"]), None
        limit = int(self.spec["backoffLimit"])
        if self._count("failed") > limit or self._restarts() > max(0, limit - 1):
            return ("FailureTarget", *TOO_MANY), None
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is None or self.suspended:
            return None, None
        left = float(deadline) - age(self.status["startTime"])
        return (None, left) if left > 0 else (("FailureTarget", *TOO_LONG), None)

    def _restarts(self) -> int:
        """How often containers were started anew, where that is what a pod does when it fails."""
        if self.spec["template"]["spec"]["restartPolicy"] != "OnFailure":
            return 0
        statuses = [self.loaded[each.uid].get("status") or {} for each in self.active]
        fields = ("initContainerStatuses", "containerStatuses")
        return sum(each.get("restartCount", 0) for s in statuses for field in fields for each in s.get(field) or ())

    def _reached(self) -> tuple[str, str, str] | None:
        done, wanted = self._count("succeeded"), self.spec.get("completions")
        enough = done > 0 if wanted is None else done >= wanted
        return ("SuccessCriteriaMet", *REACHED) if enough and not self.active else None

    async def _keep_going(self) -> float | None:
        """As many pods as are wanted now. Gives the seconds until one that failed is replaced."""
        active, done, side = self.active, self._count("succeeded"), self.spec["parallelism"]
        if "completions" in self.spec:
            wanted = max(0, min(side, self.spec["completions"] - done))
        else:
            wanted = min(side, len(active)) if done else side
        if self.suspended:
            wanted = 0
        await self._note_suspension()
        if len(active) > wanted:
            surplus = sorted(active, key=lambda pod: (is_ready(self.loaded[pod.uid]), pod.key))[: len(active) - wanted]
            freed = [each for pod in surplus if (each := await untrack(self.cluster, pod))]
            await self._give_up(freed)
            return None
        ending = sum(map(is_ending, self.pods.values()))
        missing = wanted - len(active) - (ending if self.spec.get("podReplacementPolicy") == "Failed" else 0)
        if missing <= 0:
            return None
        if (pause := self._pause()) > 0:
            return pause
        template = self.spec["template"]
        finalizers = [*(template["metadata"].get("finalizers") or ()), TRACKED]
        for _ in range(min(missing, BURST)):
            try:
                pod = await create_pod(self.cluster, self.record, template, COMPONENT, finalizers=finalizers)
            except StatusError as error:
                self.fault = error
                break
            self._add(pod)
        return None

    def _add(self, pod: Object) -> None:
        record = self.cluster.store.get("pods", (self.record.key[0], pod["metadata"]["name"]))
        if record is not None:
            self.pods[record.uid], self.loaded[record.uid] = record, record.load()

    async def _give_up(self, pods: list[Record]) -> None:
        for pod in pods:
            self.cluster.delete(pod)
            await self.cluster.tell(self.record, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.key[1]}", COMPONENT)
            current = self.cluster.store.get("pods", pod.key)
            if current is None:
                del self.pods[pod.uid]
            else:
                self.pods[pod.uid] = current

    def _pause(self) -> float:
        """Seconds for which a pod that failed is not replaced yet: the more have failed in a row, the longer."""
        ends = {result: [] for result in ("succeeded", "failed")}  # type: dict[str, list[float]]
        for uid, pod in self.pods.items():
            if (result := self._result(pod)) is not None:
                ends[result].append(_ended_for(self.loaded[uid]))
        since_success = min(ends["succeeded"], default=float("inf"))
        row = [each for each in ends["failed"] if each < since_success]
        return min(PAUSE * 2 ** (len(row) - 1), LONGEST_PAUSE) - min(row) if row else 0

    async def _note_suspension(self) -> None:
        before = condition(self.item, "Suspended").get("status", "False")
        if self.suspended == (before == "True"):
            return
        word = "suspended" if self.suspended else "resumed"
        self._condition("Suspended", str(self.suspended), f"Job{word.capitalize()}", f"Job {word}")
        await self.cluster.tell(self.record, "Normal", word.capitalize(), f"Job {word}", COMPONENT)
        self.status.pop("startTime", None)
        if not self.suspended:
            self.status["startTime"] = meta.now()

    async def _report(self, end: tuple[str, str, str] | None) -> None:
        """Write the status; the end itself when every pod has been counted and none is ending."""
        active = self.active
        ending = sum(map(is_ending, self.pods.values()))
        self.status.pop("active", None)
        if active:
            self.status["active"] = len(active)
        self.status["ready"] = sum(is_ready(self.loaded[each.uid]) for each in active)
        self.status["terminating"] = ending
        over = end is not None and not ending and not self.status["uncountedTerminatedPods"]
        if over and end is not None:
            well = end[0] == "SuccessCriteriaMet"
            self._condition("Complete" if well else "Failed", "True", *end[1:])
            if well:
                self.status["completionTime"] = meta.now()
        if self.status != self.was:
            await self.cluster.update(self.record, self.item, "status")
        if over and end is not None:
            told = ("Normal", "Completed", "Job completed") if well else ("Warning", *end[1:])
            await self.cluster.tell(self.record, *told, COMPONENT)

    def _condition(self, type_: str, status: str, reason: str, message: str) -> None:
        wanted = {"type": type_, "status": status, "lastProbeTime": meta.now(), "lastTransitionTime": meta.now()}
        others = [each for each in self.status.get("conditions") or () if each["type"] != type_]
        self.status["conditions"] = [*others, wanted | {"reason": reason, "message": message}]


def _ended_for(pod: Object) -> float:
    """Seconds since a pod has ended."""
    states = [each.get("state") or {} for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    ends = [each["terminated"]["finishedAt"] for each in states if (each.get("terminated") or {}).get("finishedAt")]
    ends = ends or [condition(pod, "Ready").get("lastTransitionTime"), pod["metadata"].get("deletionTimestamp")]
    return min((max(0.0, age(each)) for each in ends if each), default=0.0)
