"""ReplicaSets: so many pods of one template."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Event, Key, Record
from apps.localcluster.controllers.base import Controller, pods_of
from apps.localcluster.controllers.pods import (
    condition,
    create_pod,
    is_active,
    is_ending,
    is_ready,
    set_condition,
    unavailable_for,
    without,
)

Object = dict[str, Any]

REPLICA_SETS = "replicasets.apps"
COMPONENT = "replicaset-controller"
BURST = 500
COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets(Controller):
    resource = REPLICA_SETS

    def stirred(self, event: Event) -> Iterable[Key]:
        """A pod's owner, and those that could adopt one without."""
        record = event.record
        if record.resource == REPLICA_SETS:
            return [record.key]
        if record.resource != "pods":
            return ()
        owners = {uid for _, uid in pods_of(event)}
        return [each.key for each in self.store.select(REPLICA_SETS, record.key[0]) if each.uid in owners or not owners]

    async def look(self, key: Key) -> float | None:
        record = self.store.get(REPLICA_SETS, key)
        if record is None:
            return None
        item = record.load()
        spec = item["spec"]
        found = await self.cluster.claim("pods", record, lambda labels: matches_labels(spec["selector"], labels))
        pods, fault = [each for each in found if is_active(each)], None
        if not record.deleting:
            try:
                await self._manage(record, spec, pods)
            except StatusError as error:
                fault = error
        ending = sum(map(is_ending, found))
        again = await self._report(record, pods, ending, fault)
        if fault is not None:
            raise fault
        return again

    async def _manage(self, record: Record, spec: Object, pods: list[Record]) -> None:
        """Make the pods that are missing, delete those that are too many. What has changed is looked at again."""
        missing = spec["replicas"] - len(pods)
        for _ in range(min(missing, BURST)):
            await create_pod(self.cluster, record, spec["template"], COMPONENT)
        for each in sorted(pods, key=_worth)[: max(0, -missing)]:
            self.cluster.delete(each)
            await self.cluster.tell(record, "Normal", "SuccessfulDelete", f"Deleted pod: {each.key[1]}", COMPONENT)

    async def _report(self, record: Record, pods: list[Record], ending: int, fault: StatusError | None) -> float | None:
        """Write the status. Gives the seconds until the next pod counts as available."""
        current = self.store.get(record.resource, record.key)
        if current is None:
            return None
        item = current.load()
        spec, before = item["spec"], item.get("status") or {}
        loaded = [each.load() for each in pods]
        labels = spec["template"]["metadata"].get("labels") or {}
        waits = [unavailable_for(pod, spec.get("minReadySeconds", 0)) for pod in loaded]
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= each.labels.items() for each in pods),
            "readyReplicas": sum(map(is_ready, loaded)),
            "availableReplicas": waits.count(0.0),
        }
        status = {"replicas": len(pods)} | {name: count for name, count in counts.items() if count}
        status |= {"terminatingReplicas": ending, "observedGeneration": item["metadata"]["generation"]}
        if before.get("conditions"):
            status["conditions"] = list(before["conditions"])
        if fault is None:
            without(status, "ReplicaFailure")
        elif not condition(item, "ReplicaFailure"):
            told = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": meta.now()}
            set_condition(status, told | {"reason": "FailedCreate", "message": fault.message})
        if status != before:
            await self.cluster.update(current, item | {"status": status}, "status")
        return min((wait for wait in waits if 0 < wait < math.inf), default=None)


def _worth(record: Record) -> tuple[Any, ...]:
    """In which order pods are given up: those that have come least far first, then the youngest."""
    pod = record.load()
    cost = (pod["metadata"].get("annotations") or {}).get(COST, "0")
    restarts = [each.get("restartCount", 0) for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    return (
        bool(pod["spec"].get("nodeName")),
        PHASES.get(record.fields["status.phase"], 0),
        is_ready(pod),
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -max(restarts, default=0),
        -_born(pod),
    )


def _born(pod: Object) -> int:
    """When, as a number that grows."""
    return int(pod["metadata"]["creationTimestamp"].translate(str.maketrans("", "", "-:TZ")))
