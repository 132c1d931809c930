"""Disruption budgets: how many of their pods are healthy, and how many may go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.localcluster.apiserver.budgets import BUDGETS, tell_allowed
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Event, Key, Record
from apps.localcluster.controllers.base import Controller, controller
from apps.localcluster.controllers.pods import ENDED, age, is_ready, share

Object = dict[str, Any]

COMPONENT = "controllermanager"
GONE_SECONDS = 120  # how long a pod that was evicted may take to be deleted


class Budgets(Controller):
    resource = BUDGETS

    def stirred(self, event: Event) -> Iterable[Key]:
        record = event.record
        if record.resource == BUDGETS:
            return [record.key]
        counts = record.resource == "pods" or record.resource.endswith(".apps")
        return [each.key for each in self.store.select(BUDGETS, record.key[0])] if counts else ()

    async def look(self, key: Key) -> float | None:
        record = self.store.get(BUDGETS, key)
        if record is None or record.deleting:
            return None
        item = record.load()
        spec, selector, before = item["spec"], item["spec"].get("selector"), item["status"]
        everybody = self.store.select("pods", key[0]) if selector is not None else []
        pods = [
            each
            for each in everybody
            if matches_labels(selector, each.labels) and each.fields["status.phase"] not in ENDED
        ]
        expected, wanted = self._wanted(spec, pods)
        names = {each.key[1] for each in pods if not each.deleting}
        evicted = (before.get("disruptedPods") or {}).items()
        going = {name: time for name, time in evicted if name in names and age(time) < GONE_SECONDS}
        healthy = sum(not each.deleting and each.key[1] not in going and is_ready(each.load()) for each in pods)
        status: Object = {
            "observedGeneration": item["metadata"]["generation"],
            "disruptionsAllowed": max(0, healthy - wanted) if expected else 0,
            "currentHealthy": healthy,
            "desiredHealthy": wanted,
            "expectedPods": expected,
            "conditions": before.get("conditions") or [],
        }
        if going:
            status["disruptedPods"] = going
        tell_allowed(status)
        if status != before:
            if not pods:
                await self.cluster.tell(record, "Normal", "NoPods", "No matching pods found", COMPONENT)
            await self.cluster.update(record, item | {"status": status}, "status")
        return min((GONE_SECONDS - age(time) + 1 for time in going.values()), default=None)

    def _wanted(self, spec: Object, pods: list[Record]) -> tuple[int, int]:
        """How many pods there should be by their owners, and how many of them healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is None and not isinstance(least, str):
            return len(pods), least or 0
        owners = {controller(each) for each in pods} - {""}
        expected = sum(self._scale(uid, pods[0].key[0]) for uid in owners) if pods else 0
        if most is not None:
            return expected, max(0, expected - share(most, expected, up=True))
        assert least is not None
        return expected, share(least, expected, up=True)

    def _scale(self, uid: str, namespace: str) -> int:
        """The number that a ReplicaSet, or the deployment it belongs to, wants."""
        for resource in ("replicasets.apps", "deployments.apps"):
            for record in self.store.select(resource, namespace):
                if record.uid == uid:
                    above = controller(record)
                    return self._scale(above, namespace) if above else int(record.load()["spec"]["replicas"])
        return 0
