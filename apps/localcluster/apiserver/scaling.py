"""The subresource `scale`: a Deployment or ReplicaSet seen as nothing but a number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apps.localcluster.apiserver import bodies, schemas
from apps.localcluster.apiserver.answers import Answer, json_answer
from apps.localcluster.apiserver.errors import (
    STALE,
    conflict,
    invalid,
    invalid_value,
    not_found,
    not_implemented,
)
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.patches import patched
from apps.localcluster.apiserver.requests import APPLY, Request, check_write_options
from apps.localcluster.apiserver.store import Moved, Store, decode
from apps.localcluster.apiserver.validation import NOT_NEGATIVE
from apps.localcluster.apiserver.workloads import scale_of
from apps.localcluster.apiserver.writing import PATCH_TRIES, Change, Writer

Object = dict[str, Any]

SCALE = Kind("autoscaling", "v1", "Scale", "scales", schema=schemas.of_kind("autoscaling", "v1", "Scale"))


class Scaling:
    """Reads and writes the scale of what has one."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self.store, self.writer = store, writer

    async def answer(self, request: Request) -> Answer:
        """GET, PUT or PATCH. Raises StatusError 404, 409, 422."""
        if request.method == "GET":
            record = self.store.get(request.kind.resource, request.key)
            if record is None:
                raise not_found(request.kind, request.name)
            return json_answer(scale_of(record.load()))
        for _ in range(PATCH_TRIES if request.method == "PATCH" else 1):
            try:
                return await self._write(request)
            except Moved:
                continue
        raise conflict(request.kind, request.name, STALE)

    async def _write(self, request: Request) -> Answer:
        record = self.store.get(request.kind.resource, request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        old, as_scale = record.load(), replace(request, kind=SCALE)
        if request.method == "PUT":
            check_write_options(request, "UpdateOptions")
            sent = bodies.parse(as_scale).item
        elif request.content_type == APPLY:
            raise not_implemented("apply of a scale")
        else:
            check_write_options(request, "PatchOptions")
            sent = patched(as_scale, scale_of(old))
        bodies.check_type(as_scale, sent)
        replicas = (sent.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            raise invalid(SCALE, request.name, [invalid_value("spec.replicas", replicas, NOT_NEGATIVE)])
        version = (sent.get("metadata") or {}).get("resourceVersion")
        if version and version != str(record.version):
            raise conflict(request.kind, request.name, STALE)
        new = record.load()
        new["spec"]["replicas"] = replicas
        answer = await self.writer.change(request, Change(record, old, new))
        return json_answer(scale_of(decode(answer.body)))
