"""How a Deployment stands: its ReplicaSets, and what its status tells of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.store import Record
from apps.localcluster.controllers.base import Cluster
from apps.localcluster.controllers.pods import age, condition, set_condition, share, without

Object = dict[str, Any]

HASH = "pod-template-hash"
PREFIX = "deployment.kubernetes.io/"
REVISION, HISTORY = PREFIX + "revision", PREFIX + "revision-history"
DESIRED, MOST = PREFIX + "desired-replicas", PREFIX + "max-replicas"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
LATE, DONE = "ProgressDeadlineExceeded", "NewReplicaSetAvailable"


class Part:
    """One ReplicaSet of a deployment."""

    def __init__(self, record: Record) -> None:
        self.record, self.item = record, record.load()
        self.name, self.made = record.key[1], self.item["metadata"]["creationTimestamp"]

    @property
    def notes(self) -> dict[str, str]:
        found: dict[str, str] = self.item["metadata"].setdefault("annotations", {})
        return found

    @property
    def replicas(self) -> int:
        return int(self.item["spec"]["replicas"])

    @property
    def revision(self) -> int:
        return int(self.notes.get(REVISION, "0"))

    def count(self, name: str) -> int:
        return int((self.item.get("status") or {}).get(name, 0))


class Standing:
    """A deployment with its ReplicaSets, as one look finds it and leaves it."""

    def __init__(self, cluster: Cluster, record: Record, sets: list[Record]) -> None:
        self.cluster, self.record, self.item = cluster, record, record.load()
        self.spec: Object = self.item["spec"]
        self.status: Object = self.item.setdefault("status", {})
        self.was = deepcopy(self.item)
        self.parts = sorted(map(Part, sets), key=lambda part: (part.made, part.name))
        self.new = next((part for part in self.parts if _template(part.item) == _template(self.item)), None)
        self.replicas = int(self.spec["replicas"])
        rolling = self.spec["strategy"].get("rollingUpdate")
        self.surge = share(rolling["maxSurge"], self.replicas, up=True) if rolling else 0
        self.unavailable = share(rolling["maxUnavailable"], self.replicas, up=False) if rolling else 0
        if rolling and not self.surge and not self.unavailable:
            self.unavailable = 1
        self.unavailable = min(self.unavailable, self.replicas)

    @property
    def old(self) -> list[Part]:
        return [part for part in self.parts if part is not self.new]

    @property
    def active(self) -> list[Part]:
        return [part for part in self.parts if part.replicas]

    def count_up(self) -> None:
        """Numbers, and whether enough pods are available."""
        available = sum(part.count("availableReplicas") for part in self.parts)
        counts = {
            "observedGeneration": self.item["metadata"]["generation"],
            "replicas": sum(part.count("replicas") for part in self.parts),
            "updatedReplicas": self.new.count("replicas") if self.new else 0,
            "readyReplicas": sum(part.count("readyReplicas") for part in self.parts),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(part.replicas for part in self.parts) - available),
        }
        kept = {name: self.status[name] for name in ("conditions", "collisionCount") if name in self.status}
        ending = sum(part.count("terminatingReplicas") for part in self.parts)
        self.item["status"] = self.status = {name: count for name, count in counts.items() if count} | kept
        self.status["terminatingReplicas"] = ending
        enough = available >= self.replicas - self.unavailable
        words = ("has", "Available") if enough else ("does not have", "Unavailable")
        told = f"Deployment {words[0]} minimum availability."
        self._condition("Available", str(enough), f"MinimumReplicas{words[1]}", told)

    def is_complete(self, status: Object) -> bool:
        names = ("updatedReplicas", "replicas", "availableReplicas")
        seen = status.get("observedGeneration", 0) >= self.item["metadata"]["generation"]
        return seen and all(status.get(name, 0) == self.replicas for name in names)

    def judge_progress(self) -> None:
        before, now = self.was["status"], self.status
        name = f'ReplicaSet "{self.new.name}"' if self.new else f'Deployment "{self.record.key[1]}"'
        current = condition(self.item, "Progressing")
        settled = now.get("replicas") == now.get("updatedReplicas") and current.get("reason") == DONE
        if settled:
            pass
        elif self.is_complete(now):
            self.progress("True", DONE, f"{name} has successfully progressed.")
        elif self._has_progressed(before, now):
            without(now, "Progressing")
            self.progress("True", "ReplicaSetUpdated", f"{name} is progressing.", current)
        elif current and current["reason"] not in (DONE, LATE) and self._is_late(current):
            self.progress("False", LATE, f"{name} has timed out progressing.")
        self._pass_failures_on()

    def _is_late(self, progress: Object) -> bool:
        return age(progress["lastUpdateTime"]) > float(self.spec["progressDeadlineSeconds"])

    def _has_progressed(self, before: Object, now: Object) -> bool:
        def old(status: Object) -> int:
            return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

        names = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return old(now) < old(before) or any(now.get(name, 0) > before.get(name, 0) for name in names)

    def _pass_failures_on(self) -> None:
        first = [self.new] if self.new else []
        failures = [condition(part.item, "ReplicaFailure") for part in (*first, *self.old)]
        failure = next(filter(None, failures), None)
        if failure is None:
            without(self.status, "ReplicaFailure")
        else:
            self._condition("ReplicaFailure", failure["status"], failure["reason"], failure["message"])

    def note_pause(self) -> None:
        """A deployment that is paused cannot be late."""
        reason = condition(self.item, "Progressing").get("reason")
        if reason != LATE and self.spec.get("paused") and reason != PAUSED:
            self.progress("Unknown", PAUSED, "Deployment is paused")
        elif not self.spec.get("paused") and reason == PAUSED:
            self.progress("Unknown", RESUMED, "Deployment is resumed")

    def progress(self, status: str, reason: str, message: str, before: Object | None = None) -> None:
        self._condition("Progressing", status, reason, message)
        if before and before["status"] == status:
            condition(self.item, "Progressing")["lastTransitionTime"] = before["lastTransitionTime"]

    def _condition(self, type_: str, status: str, reason: str, message: str) -> None:
        wanted = {"type": type_, "status": status, "lastUpdateTime": meta.now(), "lastTransitionTime": meta.now()}
        set_condition(self.status, wanted | {"reason": reason, "message": message})


def _template(item: Object) -> Object:
    """A template without the label that tells its ReplicaSet's pods apart."""
    template: Object = deepcopy(item["spec"]["template"])
    (template["metadata"].get("labels") or {}).pop(HASH, None)
    return template
