"""delete and deletecollection: preconditions, grace of pods, finalizers, propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from apps.localcluster.apiserver import meta, protobuf
from apps.localcluster.apiserver.admission import Admission, Operation
from apps.localcluster.apiserver.answers import Answer, json_answer, object_json, record_json
from apps.localcluster.apiserver.bodies import read_protobuf
from apps.localcluster.apiserver.definitions import DEFINITIONS, condition
from apps.localcluster.apiserver.errors import (
    STALE,
    Cause,
    StatusError,
    bad_request,
    conflict,
    details_of,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    not_supported,
)
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.reading import list_
from apps.localcluster.apiserver.requests import Request, number_of
from apps.localcluster.apiserver.selectors import selector_of
from apps.localcluster.apiserver.store import Moved, Record, Store, decode

Object = dict[str, Any]

KEPT_NAMESPACES = ("default", "kube-system", "kube-public")
POLICIES = ("Foreground", "Background", "Orphan")
FINALIZER_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
DEFAULT_POLICIES = {"jobs.batch": "Orphan"}
ORPHANS_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
BOTH_SET = "orphanDependents and deletionPropagation cannot be both set"
DELETE_TRIES = 5
TOLD_WHOLE = {
    *("pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas"),
    "storageclasses.storage.k8s.io",
}
"""Kinds of which a deletion is answered with what was there, not with a Status."""


@dataclass(frozen=True)
class Options:
    """DeleteOptions. `grace` is None when not given."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    policy: str = ""
    dry_run: bool = False
    warn: bool = False
    """Nobody has said what is to become of dependents that are left behind."""


def options_of(request: Request) -> Options:
    """DeleteOptions from body and query. Raises StatusError 400 or 422."""
    body = _sent(request) if request.body.strip() else {}
    policy = body.get("propagationPolicy") or request.query.get("propagationPolicy", "")
    orphan = body.get("orphanDependents")
    dry = body.get("dryRun") or ([request.query["dryRun"]] if request.query.get("dryRun") else [])
    causes: list[Cause] = []
    if policy and orphan is not None:
        causes.append(invalid_value("propagationPolicy", policy, BOTH_SET))
    elif policy and policy not in POLICIES:
        causes.append(not_supported("propagationPolicy", policy, [*POLICIES, "nil"]))
    if dry not in ([], ["All"]):
        causes.append(not_supported("dryRun", str(dry[0]), ["All"]))
    if causes:
        raise invalid(("meta.k8s.io", "DeleteOptions"), "", causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    grace = body.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
    conditions = body.get("preconditions") or {}
    return Options(
        None if grace is None else int(grace),
        conditions.get("uid") or "",
        conditions.get("resourceVersion") or "",
        policy or DEFAULT_POLICIES.get(request.kind.resource, ""),
        bool(dry),
        warn=not policy and request.kind.resource in DEFAULT_POLICIES,
    )


def _sent(request: Request) -> Object:
    """The options in a body. Raises StatusError 400."""
    try:
        in_protobuf = request.content_type == protobuf.MEDIA_TYPE
        body = read_protobuf(request.body) if in_protobuf else decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error: not an object")
    if body.get("kind") not in (None, "DeleteOptions"):
        told = f'no kind "{body["kind"]}" is registered for version "{body.get("apiVersion", "")}" in scheme'
        raise bad_request(told)
    return body


class Deleter:
    """Carries out deletions."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self.store, self.admission = store, admission

    async def delete(self, request: Request) -> Answer:
        """DELETE of one object."""
        options = options_of(request)
        kind = request.kind
        for _ in range(DELETE_TRIES):
            record = self.store.get(kind.resource, request.key)
            if record is None:
                raise not_found(kind, request.name)
            if kind.resource == "namespaces" and request.name in KEPT_NAMESPACES:
                raise forbidden(kind, request.name, "this namespace may not be deleted")
            check_preconditions(kind, record, options)
            await self.admission.validate(Operation(request, "DELETE", {}, record.load()))
            try:
                answer = self.remove(kind, record, options)
                if options.warn:
                    answer.headers.append(("Warning", f'299 - "{ORPHANS_WARNING}"'))
                return answer
            except Moved:
                continue
        raise conflict(kind, request.name, STALE)

    async def delete_collection(self, request: Request) -> Answer:
        """DELETE of everything a selector finds; answers with the list of what was there."""
        options, selector = options_of(request), selector_of(request.query, request.kind)
        answer = await list_(self.store, request)
        limit = number_of(request, "limit")
        chosen = [
            each for each in self.store.select(request.kind.resource, request.namespace) if selector.matches(each)
        ]
        for record in chosen[: limit or None]:
            await self.admission.validate(Operation(request.with_name(record.key[1]), "DELETE", {}, record.load()))
            current = self.store.get(record.resource, record.key)
            if current is not None and current.uid == record.uid:
                self.remove(request.kind, current, options)
        return answer

    def remove(self, kind: Kind, record: Record, options: Options) -> Answer:
        """Delete at once, or mark as being deleted when something must happen first. Raises Moved."""
        item = record.load()
        metadata, grace = item["metadata"], _grace(kind, item, options)
        finalizers = list(metadata.get("finalizers") or ())
        if options.policy:
            finalizers = [each for each in finalizers if each not in FINALIZER_OF.values()]
            finalizers += filter(None, [FINALIZER_OF.get(options.policy)])
        if kind.resource != "namespaces" and not finalizers and not grace:
            return self._gone(kind, record, item, options)
        if not record.deleting:
            if kind.resource == "namespaces":
                item.setdefault("status", {})["phase"] = "Terminating"
            elif kind.resource == DEFINITIONS:
                item["status"]["conditions"] = [*(item["status"].get("conditions") or []), _terminating()]
            if metadata.get("generation"):
                metadata["generation"] += 1
        if kind.resource == "namespaces":
            # It goes when its content has gone; nobody is asked to hold it.
            metadata.setdefault("deletionTimestamp", meta.now())
        else:
            metadata["finalizers"] = finalizers
            meta.tidy(item)
            if not record.deleting or grace < metadata["deletionGracePeriodSeconds"]:
                metadata |= {"deletionTimestamp": meta.now(grace), "deletionGracePeriodSeconds": grace}
        if options.dry_run or item == record.load():
            return Answer(200, object_json(kind, item))
        return Answer(200, record_json(kind, self.store.put(kind.resource, record.key, item, record.version)))

    def _gone(self, kind: Kind, record: Record, item: Object, options: Options) -> Answer:
        """Nothing holds it any more."""
        if not options.dry_run:
            self.store.remove(kind.resource, record.key, record.version)
        if kind.resource == "pods":
            if not record.deleting and "generation" in item["metadata"]:
                item["metadata"]["generation"] += 1
            item["metadata"] = {"deletionTimestamp": meta.now()} | item["metadata"] | {"deletionGracePeriodSeconds": 0}
        if kind.resource in TOLD_WHOLE:
            return Answer(200, object_json(kind, item))
        details = {"name": record.key[1]} | ({"group": kind.group} if kind.group else {})
        details |= {"kind": kind.plural, "uid": record.uid}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return json_answer(status)


def check_preconditions(kind: Kind, record: Record, options: Options) -> None:
    """Raise StatusError 409 when uid or resourceVersion is not the expected one."""
    name = record.key[1]
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    for what, wanted, found, guess in (
        ("UID", options.uid, record.uid, "deleted and then recreated"),
        ("ResourceVersion", options.version, str(record.version), "modified"),
    ):
        if wanted and wanted != found:
            message = (
                f'Operation cannot be fulfilled on {qualified} "{name}": the {what} in the precondition ({wanted}) '
                f"does not match the {what} in record ({found}). The object might have been {guess}"
            )
            raise StatusError(409, "Conflict", message, details_of(kind, name, by_kind=True))


def _terminating() -> Object:
    told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    return condition("Terminating", "InstanceDeletionPending", told)


def _grace(kind: Kind, item: Object, options: Options) -> int:
    """Seconds a pod has to end; 0 for everything that can go at once."""
    if kind.resource != "pods":
        return 0
    spec, status = item.get("spec") or {}, item.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
    return 1 if grace < 0 else grace
