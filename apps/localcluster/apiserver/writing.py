"""create, update and patch: from a body to a stored object.

The order is that of a real server: decode, defaults, mutating admission, ownership of fields, validation, validating
admission, store. A webhook may take its time; the store refuses a write whose base has moved meanwhile, and a patch is
then carried out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from apps.localcluster.apiserver import bodies, managers, meta, patches, rules, schemas
from apps.localcluster.apiserver.admission import Admission, Operation
from apps.localcluster.apiserver.answers import Answer, object_json, record_json
from apps.localcluster.apiserver.errors import (
    STALE,
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    required,
)
from apps.localcluster.apiserver.fields import Schema, doubled
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.managers import Manager, Owners
from apps.localcluster.apiserver.requests import APPLY, Request, check_write_options
from apps.localcluster.apiserver.store import Moved, Record, Store, decode

Object = dict[str, Any]

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PATCH_TRIES = 5
CUSTOM_PATCHES = (
    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
    "application/merge-patch+json, application/apply-patch+yaml"
)


@dataclass
class Change:
    """What an update is about to write. `owners` is set by an apply, whose ownership is settled already."""

    record: Record
    old: Object
    new: Object
    owners: Owners | None = None
    warnings: list[str] = field(default_factory=list)


class Writer:
    """Carries out writes of one object."""

    def __init__(self, store: Store, registry: Registry, admission: Admission) -> None:
        self.store, self.registry, self.admission = store, registry, admission

    # -- create

    async def create(self, request: Request) -> Answer:
        """POST of a new object."""
        check_write_options(request, "CreateOptions")
        body = bodies.parse(request)
        warnings: list[str] = []
        _check_type(request, body.item)
        item = body.item
        unknown = [f'unknown field "{path}"' for path in schemas.prune(request.kind.schema, item)]
        bodies.check_faults(request, body.faults + unknown, warnings.append)
        item["metadata"] = dict(item.get("metadata") or {})
        manager = Manager(request.manager, "Update", request.kind.api_version)
        return await self._create(request, item, manager, None, warnings)

    async def _create(
        self, request: Request, item: Object, manager: Manager, owners: Owners | None, warnings: list[str]
    ) -> Answer:
        kind = request.kind
        item.pop("kind", None), item.pop("apiVersion", None)
        meta.settle_namespace(kind, request.namespace, item["metadata"])
        meta.prepare_create(kind, item)
        if kind.has_status and kind.resource != "nodes":
            item.pop("status", None)
        faults = rules.decode(kind, item)
        if faults:
            raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {faults}')
        rules.set_defaults(kind, item)
        operation = Operation(request, "CREATE", item, None, warnings)
        await self.admission.mutate(operation)
        item = operation.item
        rules.decode(kind, item)  # what webhooks have written
        rules.set_defaults(kind, item)
        if owners is None:
            managers.after_update(Schema(kind), {}, item, manager, meta.now())
        else:
            managers.write(item, owners)
        causes = meta.validate_new(kind, item) + rules.validate(kind, item)
        if causes:
            raise invalid(kind, item["metadata"].get("name", ""), causes)
        await self.admission.validate(operation)
        warnings.extend(rules.warnings(kind, item))
        meta.tidy(item)
        key = (request.namespace, item["metadata"]["name"])
        if self.store.get(kind.resource, key) is not None:
            raise already_exists(kind, key[1])
        if request.dry_run:
            return _answer(201, object_json(kind, item), warnings)
        try:
            record = self.store.put(kind.resource, key, item, 0)
        except Moved as moved:
            raise already_exists(kind, key[1]) from moved
        return _answer(201, record_json(kind, record), warnings)

    # -- update

    async def update(self, request: Request) -> Answer:
        """PUT of a whole object or of its status."""
        check_write_options(request, "UpdateOptions")
        body = bodies.parse(request)
        warnings: list[str] = []
        bodies.check_type(request, body.item)
        new = body.item
        unknown = [f'unknown field "{path}"' for path in schemas.prune(request.kind.schema, new)]
        bodies.check_faults(request, body.faults + unknown, warnings.append)
        new["metadata"] = dict(new.get("metadata") or {})
        record = self._live(request)
        meta.settle_namespace(request.kind, request.namespace, new["metadata"])
        self._check_name(request, new)
        version = new["metadata"].get("resourceVersion")
        if request.kind.custom and not version:
            fault = Cause(
                "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
            )
            raise invalid(request.kind, request.name, [fault])
        self._check_version(request, record, version)
        self._check_uid(request, record, new["metadata"].get("uid"))
        try:
            return await self.change(request, Change(record, record.load(), new, warnings=warnings))
        except Moved as moved:
            raise conflict(request.kind, request.name, STALE) from moved

    def _live(self, request: Request) -> Record:
        record = self.store.get(request.kind.resource, request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        return record

    def _check_name(self, request: Request, new: Object) -> None:
        name = new["metadata"].get("name")
        if name and name != request.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
        if not name:
            raise bad_request(
                f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
            )

    def _check_version(self, request: Request, record: Record, version: Any) -> None:
        if not version:
            return
        if not str(version).isdigit():
            raise StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if int(version) != record.version:
            raise conflict(request.kind, request.name, STALE)

    def _check_uid(self, request: Request, record: Record, uid: Any) -> None:
        if uid and uid != record.uid:
            raise conflict(
                request.kind,
                request.name,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}",
            )

    async def change(self, request: Request, change: Change) -> Answer:
        """Carry an update through. Raises StatusError, Moved."""
        kind, old, new = request.kind, change.old, change.new
        new.pop("kind", None), new.pop("apiVersion", None)
        faults = rules.decode(kind, new)
        if faults and request.method == "PATCH":
            # A real server quotes the whole object here, secrets too; that is not copied.
            raise invalid(("", ""), "", [Cause("FieldValueInvalid", f"Invalid value: {faults}", "patch")])
        if faults:
            raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {faults}')
        meta.keep_identity(kind, old, new)
        new = rules.keep_parts(kind, request.target.subresource, old, new)
        rules.set_defaults(kind, new)
        operation = Operation(request, "UPDATE", new, old, change.warnings)
        await self.admission.mutate(operation)
        new = operation.item
        rules.decode(kind, new)  # what webhooks have written
        rules.set_defaults(kind, new)
        meta.keep_identity(kind, old, new)
        self._count_generation(request, old, new)
        meta.tidy(new)
        if change.owners is None:
            manager = Manager(request.manager, "Update", kind.api_version, request.target.subresource)
            managers.after_update(Schema(kind), old, new, manager, meta.now())
        else:
            before = managers.read(old)
            managers.stamp(change.owners, before, meta.now(), changed=_without_owners(old) != _without_owners(new))
            managers.write(new, change.owners)
        causes = meta.update_faults(old, new) + rules.validate(kind, new, old)
        if causes:
            raise invalid(kind, request.name, causes)
        await self.admission.validate(operation)
        return self._store(request, change, new)

    def _store(self, request: Request, change: Change, new: Object) -> Answer:
        kind = request.kind
        if new == change.old:
            return _answer(200, record_json(kind, change.record), change.warnings)
        if request.dry_run:
            return _answer(200, object_json(kind, new), change.warnings)
        metadata = new["metadata"]
        finished = not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in metadata and finished and not (new.get("spec") or {}).get("finalizers"):
            self.store.remove(kind.resource, request.key, change.record.version)
            return _answer(200, object_json(kind, new), change.warnings)
        record = self.store.put(kind.resource, request.key, new, change.record.version)
        return _answer(200, record_json(kind, record), change.warnings)

    def _count_generation(self, request: Request, old: Object, new: Object) -> None:
        if not request.kind.generation:
            return
        apart = {"metadata", "status"} if request.kind.has_status else {"metadata"}
        before = {name: value for name, value in old.items() if name not in apart}
        after = {name: value for name, value in new.items() if name not in apart}
        if before != after:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    # -- patch

    async def patch(self, request: Request) -> Answer:
        """PATCH of any of the four kinds; tried again when another write came between."""
        type_ = request.content_type
        if type_ == APPLY:
            return await self._retry(request, self._apply)
        if type_ == STRATEGIC and request.kind.custom:
            raise StatusError(415, "UnsupportedMediaType", CUSTOM_PATCHES)
        if type_ not in (MERGE, JSON_PATCH, STRATEGIC):
            message = "415: Unsupported Media Type"
            raise StatusError(415, "UnsupportedMediaType", message, {})
        check_write_options(request, "PatchOptions")
        return await self._retry(request, self._patch)

    async def _retry(self, request: Request, attempt: Callable[[Request], Any]) -> Answer:
        for _ in range(PATCH_TRIES):
            try:
                answer: Answer = await attempt(request)
            except Moved:
                continue
            return answer
        raise conflict(request.kind, request.name, STALE)

    async def _patch(self, request: Request) -> Answer:
        kind = request.kind
        record = self._live(request)
        old = record.load()
        whole = {"kind": kind.kind, "apiVersion": kind.api_version} | old
        new = patched(request, whole)
        new["metadata"] = dict(new.get("metadata") or {})
        bodies.check_type(request, new)
        warnings: list[str] = []
        unknown = [f'unknown field "{path}"' for path in schemas.prune(kind.schema, new)]
        bodies.check_faults(request, unknown, warnings.append)
        self._check_name(request, new)
        meta.settle_namespace(kind, request.namespace, new["metadata"])
        self._check_version(request, record, new["metadata"].get("resourceVersion"))
        return await self.change(request, Change(record, old, new, warnings=warnings))

    async def _apply(self, request: Request) -> Answer:
        kind, manager_name = request.kind, request.query.get("fieldManager", "")
        causes = []
        if not manager_name:
            causes.append(required("fieldManager", "is required for apply patch"))
        elif len(manager_name) > 128:
            causes.append(Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"))
        if causes:
            raise invalid(("meta.k8s.io", "PatchOptions"), "", causes)
        check_write_options(request, "PatchOptions")
        applied = bodies.parse(request).item
        if not (applied.get("kind") and applied.get("apiVersion")):
            named = f"{applied.get('apiVersion') or '/'}, Kind={applied.get('kind') or ''}"
            raise bad_request(f"invalid object type: {named}")
        bodies.check_type(request, applied)
        applied["metadata"] = dict(applied.get("metadata") or {})
        if applied["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        self._check_name(request, applied)
        meta.settle_namespace(kind, request.namespace, applied["metadata"])
        manager = Manager(manager_name, "Apply", kind.api_version, request.target.subresource)
        record = self.store.get(kind.resource, request.key)
        claimed = rules.claimable(kind, request.target.subresource, applied)
        if record is None:
            return await self._apply_new(request, claimed, manager)
        self._check_version(request, record, claimed["metadata"].get("resourceVersion"))
        self._check_uid(request, record, claimed["metadata"].get("uid"))
        old = record.load()
        _normalise(request, claimed)
        new, owners = managers.apply(Schema(kind), old, claimed, manager, force=request.flag("force"))
        return await self.change(request, Change(record, old, new, owners))

    async def _apply_new(self, request: Request, applied: Object, manager: Manager) -> Answer:
        kind = request.kind
        if request.target.subresource:
            raise not_found(kind, request.name)
        if uid := applied["metadata"].get("uid"):
            raise conflict(
                kind,
                request.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
            )
        await self.admission.may_create(request)
        _, owners = managers.apply(Schema(kind), {}, applied, manager, force=True)
        _normalise(request, applied)
        managers.stamp(owners, {}, meta.now(), changed=True)
        applied["metadata"].pop("resourceVersion", None)
        return await self._create(request, deepcopy(applied), manager, owners, [])


def _check_type(request: Request, item: Object) -> None:
    """Raises StatusError 400. Of a custom kind in a version of which nothing is known, no field is known."""
    try:
        bodies.check_type(request, item)
    except StatusError as error:
        if request.kind.custom and item.get("apiVersion") != request.kind.api_version:
            unknown = [name for name in item if name not in ("apiVersion", "kind", "metadata")]
            error.headers += warning_headers(f'unknown field "{name}"' for name in unknown)
        raise


def _normalise(request: Request, applied: Object) -> None:
    """Bring an applied configuration into stored form. Raises StatusError 500, as a real server does."""
    kind = request.kind
    unknown = schemas.prune(kind.schema, applied)
    fault = f".{unknown[0]}: field not declared in schema" if unknown else rules.decode(kind, applied)
    fault = fault or doubled(Schema(kind), applied)
    if fault:
        raise StatusError(
            500,
            "",
            f"failed to create typed patch object ({request.namespace}/{request.name}; {kind.api_version}, "
            f"Kind={kind.kind}): {fault}",
        )


def _without_owners(item: Object) -> Object:
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    return item | {"metadata": metadata}


def patched(request: Request, whole: Object) -> Object:
    """The object after a merge, JSON or strategic patch. Raises StatusError."""
    try:
        patch = decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if request.content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
            )
        try:
            result = patches.json_patch(whole, patch)
        except patches.PatchFailed as error:
            message = f"the server rejected our request due to an error in our request: {error}"
            raise StatusError(422, "Invalid", message.partition(": ")[0], {}) from error
    elif not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    elif request.content_type == MERGE:
        result = patches.merge(whole, patch)
    else:
        result = patches.strategic(Schema(request.kind), whole, patch)
    if not isinstance(result, dict):
        raise bad_request("the patched object is no object")
    return result


def _answer(status: int, body: bytes, warnings: list[str]) -> Answer:
    return Answer(status, body, headers=warning_headers(warnings))


def warning_headers(texts: Iterable[str]) -> list[tuple[str, str]]:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in dict.fromkeys(texts)]
    return [("Warning", f'299 - "{text}"') for text in quoted]
