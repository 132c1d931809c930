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
SHORTEST_TOKEN = 600
LONGEST_TOKEN = 2**32


class Subresources:
    """Handlers of POST on subresources."""

    def __init__(self, store: Store, admission: Admission, deleter: Deleter, tokens: Tokens) -> None:
        self.store, self.admission, self.deleter, self.tokens = store, admission, deleter, tokens

    async def bind(self, request: Request) -> Answer:
        """POST pods/NAME/binding: put a pod on a node, once."""
        kind, body = request.kind, bodies.parse(request).item
        node = (body.get("target") or {}).get("name", "")
        if not node:
            raise invalid(("", "Binding"), request.name, [required("target.name")])
        record = self.store.get(kind.resource, request.key)
        if record is None:
            raise not_found(kind, request.name)
        pod = record.load()
        await self.admission.validate(Operation(request, "CREATE", body, None))
        binding = replace(kind, plural="pods/binding")
        if record.deleting:
            raise conflict(binding, request.name, f"pod {request.name} is being deleted, cannot be assigned to a host")
        if already := pod["spec"].get("nodeName"):
            raise conflict(binding, request.name, f'pod {request.name} is already assigned to node "{already}"')
        metadata = body.get("metadata") or {}
        if metadata.get("uid") and metadata["uid"] != record.uid:
            raise conflict(
                kind,
                request.name,
                f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {record.uid}",
            )
        pod["spec"]["nodeName"] = node
        if metadata.get("annotations"):
            pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | metadata["annotations"]
        status = pod.setdefault("status", {})
        others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
        scheduled: Object = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": meta.now(),
        }
        status["conditions"] = [*others, scheduled]
        if request.dry_run:
            return json_answer(SUCCESS, 201)
        try:
            self.store.put(kind.resource, request.key, pod, record.version)
        except Moved as moved:
            raise conflict(kind, request.name, STALE) from moved
        return json_answer(SUCCESS, 201)

    async def evict(self, request: Request) -> Answer:
        """POST pods/NAME/eviction: a deletion that asks politely."""
        body = bodies.parse(request).item
        name = (body.get("metadata") or {}).get("name", "")
        if name != request.name:
            raise bad_request("name in URL does not match name in Eviction object")
        record = self.store.get(request.kind.resource, request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        await self.admission.validate(Operation(request, "CREATE", body, None))
        options = body.get("deleteOptions") or {}
        current = self.store.get(request.kind.resource, request.key)
        if current is None:
            raise not_found(request.kind, request.name)
        budgets.charge(self.store, current, dry_run=request.dry_run)
        if not request.dry_run:
            current = self._mark(current)
        self.deleter.remove(request.kind, current, Options(options.get("gracePeriodSeconds"), dry_run=request.dry_run))
        return json_answer(SUCCESS, 201)

    def _mark(self, pod: Record) -> Record:
        """Note on a pod that somebody has evicted it."""
        item = pod.load()
        others = [each for each in item["status"].get("conditions") or () if each["type"] != "DisruptionTarget"]
        told = {"type": "DisruptionTarget", "observedGeneration": item["metadata"].get("generation", 1)}
        told |= {"status": "True", "lastProbeTime": None, "lastTransitionTime": meta.now()}
        told |= {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        item["status"]["conditions"] = [*others, told]
        return self.store.put(pod.resource, pod.key, item, pod.version)

    async def token(self, request: Request) -> Answer:
        """POST serviceaccounts/NAME/token: a token that speaks for the account for some time."""
        body = bodies.parse(request).item
        spec = body.get("spec") or {}
        record = self.store.get(request.kind.resource, request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        seconds = spec.get("expirationSeconds")
        seconds = 3600 if seconds is None else seconds
        audiences = spec.get("audiences") or [ISSUER]
        if not isinstance(seconds, int) or seconds < SHORTEST_TOKEN:
            fault = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            raise invalid(("authentication.k8s.io", "TokenRequest"), "", [fault])
        if seconds > LONGEST_TOKEN:
            fault = invalid_value(
                "spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
            )
            raise invalid(("authentication.k8s.io", "TokenRequest"), "", [fault])
        answer: Object = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": request.name,
                "namespace": request.namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": meta.now(),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": self.tokens.issue(record.load(), audiences, seconds),
                "expirationTimestamp": meta.now(seconds),
            },
        }
        return json_answer(answer, 201)
