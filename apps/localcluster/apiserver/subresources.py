"""Paths below an object other than its status: binding, eviction, tokens."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from apps.localcluster.apiserver import bodies, budgets, meta
from apps.localcluster.apiserver.admission import Admission, Operation
from apps.localcluster.apiserver.answers import Answer, json_answer
from apps.localcluster.apiserver.deleting import Deleter, Options
from apps.localcluster.apiserver.errors import (
    STALE,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
    required,
)
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.store import Moved, Record, Store
from apps.localcluster.apiserver.tokens import ISSUER, Tokens

Object = dict[str, Any]

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
EVICTED: Object = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
SHORTEST_TOKEN = 600
LONGEST_TOKEN = 2**32


class Subresources:
    """Handlers of POST on subresources."""

    def __init__(self, store: Store, admission: Admission, deleter: Deleter, tokens: Tokens) -> None:
        self.store, self.admission, self.deleter, self.tokens = store, admission, deleter, tokens

    async def bind(self, request: Request) -> Answer:
        """POST pods/NAME/binding: put a pod on a node, once."""
        kind, body = request.kind, bodies.parse(request).item
        node, metadata = (body.get("target") or {}).get("name", ""), body.get("metadata") or {}
        if not node:
            raise invalid(("", "Binding"), request.name, [required("target.name")])
        record = self._live(request)
        pod = record.load()
        await self.admission.validate(Operation(request, "CREATE", body, None))
        binding = replace(kind, plural="pods/binding")
        if record.deleting:
            raise conflict(binding, request.name, f"pod {request.name} is being deleted, cannot be assigned to a host")
        if already := pod["spec"].get("nodeName"):
            raise conflict(binding, request.name, f'pod {request.name} is already assigned to node "{already}"')
        if (uid := metadata.get("uid")) and uid != record.uid:
            told = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
            raise conflict(kind, request.name, told)
        pod["spec"]["nodeName"] = node
        if metadata.get("annotations"):
            pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | metadata["annotations"]
        set_condition(pod, {"type": "PodScheduled", "status": "True"})
        try:
            if not request.dry_run:
                self.store.put(kind.resource, request.key, pod, record.version)
        except Moved as moved:
            raise conflict(kind, request.name, STALE) from moved
        return json_answer(SUCCESS, 201)

    def _live(self, request: Request) -> Record:
        record = self.store.get(request.kind.resource, request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        return record

    async def evict(self, request: Request) -> Answer:
        """POST pods/NAME/eviction: a deletion that asks politely."""
        body = bodies.parse(request).item
        name = (body.get("metadata") or {}).get("name", "")
        if name != request.name:
            raise bad_request("name in URL does not match name in Eviction object")
        self._live(request)
        await self.admission.validate(Operation(request, "CREATE", body, None))
        pod = self._live(request)
        budgets.charge(self.store, pod, dry_run=request.dry_run)
        if not request.dry_run:
            item = pod.load()
            set_condition(item, EVICTED | {"observedGeneration": item["metadata"].get("generation", 1)})
            pod = self.store.put(pod.resource, pod.key, item, pod.version)
        grace = (body.get("deleteOptions") or {}).get("gracePeriodSeconds")
        self.deleter.remove(request.kind, pod, Options(grace, dry_run=request.dry_run))
        return json_answer(SUCCESS, 201)

    async def token(self, request: Request) -> Answer:
        """POST serviceaccounts/NAME/token: a token that speaks for the account for some time."""
        spec = bodies.parse(request).item.get("spec") or {}
        account = self._live(request).load()
        seconds = spec.get("expirationSeconds")
        seconds = 3600 if seconds is None else seconds
        fault = ""
        if not isinstance(seconds, int) or seconds < SHORTEST_TOKEN:
            fault = "may not specify a duration less than 10 minutes"
        elif seconds > LONGEST_TOKEN:
            fault = "may not specify a duration larger than 2^32 seconds"
        if fault:
            causes = [invalid_value("spec.expirationSeconds", seconds, fault)]
            raise invalid(("authentication.k8s.io", "TokenRequest"), "", causes)
        audiences = spec.get("audiences") or [ISSUER]
        given = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")}
        answer: Object = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": request.name,
                "namespace": request.namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": meta.now(),
            },
            "spec": given,
            "status": {
                "token": self.tokens.issue(account, audiences, seconds),
                "expirationTimestamp": meta.now(seconds),
            },
        }
        return json_answer(answer, 201)


def set_condition(pod: Object, condition: Object) -> None:
    """Give a pod a condition since now, in place of one of the same type."""
    status = pod.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each["type"] != condition["type"]]
    status["conditions"] = [*others, condition | {"lastProbeTime": None, "lastTransitionTime": meta.now()}]
