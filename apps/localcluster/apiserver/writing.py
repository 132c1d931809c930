"""create, update and patch: from a body to a stored object.

The order is that of a real server: decode, defaults, mutating admission, ownership of fields, validation, validating
admission, store. A webhook may take its time; the store refuses a write whose base has moved meanwhile, and a patch is
then carried out anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

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
    invalid_value,
    not_found,
    required,
)
from apps.localcluster.apiserver.fields import doubled
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.managers import Manager, Owners
from apps.localcluster.apiserver.requests import APPLY, Request, check_write_options
from apps.localcluster.apiserver.store import Moved, Record, Store

Object = dict[str, Any]

PATCH_TRIES = 5
LONGEST_MANAGER = 128  # bytes
MADE_BY_PUT = {
    *("services", "events", "limitranges", "leases.coordination.k8s.io"),
    *(f"{name}.rbac.authorization.k8s.io" for name in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")),
}
"""What a PUT makes where it is not there yet."""
CUSTOM_PATCHES = (
    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
    "application/merge-patch+json, application/apply-patch+yaml"
)


@dataclass
class Change:
    """What is about to be written: `record` and `old` are what an update finds, None and empty for a new object.

    `owners` is set by an apply, whose ownership is settled already.
    """

    record: Record | None
    old: Object
    new: Object
    owners: Owners | None = None
    warnings: list[str] = field(default_factory=list)


class Writer:
    """Carries out writes of one object."""

    def __init__(self, store: Store, registry: Registry, admission: Admission) -> None:
        self.store, self.registry, self.admission = store, registry, admission

    async def create(self, request: Request) -> Answer:
        """POST of a new object."""
        check_write_options(request, "CreateOptions")
        body = bodies.parse(request)
        return await self.change(request, Change(None, {}, body.item, warnings=_check(request, body.item, body.faults)))

    async def update(self, request: Request) -> Answer:
        """PUT of a whole object or of its status."""
        check_write_options(request, "UpdateOptions")
        return await self._tried(request, self._update, 1)

    async def patch(self, request: Request) -> Answer:
        """PATCH of any of the four kinds; tried again when another write came between."""
        if request.content_type == APPLY:
            return await self._tried(request, self._apply, PATCH_TRIES)
        if request.content_type == patches.STRATEGIC and request.kind.custom:
            raise StatusError(415, "UnsupportedMediaType", CUSTOM_PATCHES)
        if request.content_type not in patches.TYPES:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        check_write_options(request, "PatchOptions")
        return await self._tried(request, self._patch, PATCH_TRIES)

    async def _tried(self, request: Request, attempt: Callable[[Request], Awaitable[Answer]], tries: int) -> Answer:
        for _ in range(tries):
            try:
                return await attempt(request)
            except Moved:
                continue
        raise conflict(request.kind, request.name, STALE)

    async def _update(self, request: Request) -> Answer:
        body = bodies.parse(request)
        new, warnings = body.item, _check(request, body.item, body.faults)
        if fault := rules.decode(request.kind, new):
            raise _mistyped(request, fault)
        known = self.store.get(request.kind.resource, request.key)
        if known is None and request.kind.resource in MADE_BY_PUT:
            await self._check_new(request, new["metadata"])
            new["metadata"].pop("resourceVersion", None)
            return await self.change(request, Change(None, {}, new, warnings=warnings))
        record = self._live(request)
        if request.kind.custom and not new["metadata"].get("resourceVersion"):
            missing = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid((request.kind.group, request.kind.plural), request.name, [missing])
        _check_base(request, record, new["metadata"])
        return await self.change(request, Change(record, record.load(), new, warnings=warnings))

    async def _patch(self, request: Request) -> Answer:
        kind, record = request.kind, self._live(request)
        old = record.load()
        new = patches.patched(request, {"kind": kind.kind, "apiVersion": kind.api_version} | old)
        warnings = _check(request, new, [])
        _check_base(request, record, new["metadata"] | {"uid": record.uid})
        return await self.change(request, Change(record, old, new, warnings=warnings))

    async def _apply(self, request: Request) -> Answer:
        kind, subresource = request.kind, request.target.subresource
        manager = Manager(_applier(request), "Apply", kind.api_version, subresource)
        check_write_options(request, "PatchOptions")
        applied = _applied(request)
        record = self.store.get(kind.resource, request.key)
        if record is None:
            await self._check_new(request, applied["metadata"])
        else:
            _check_base(request, record, applied["metadata"])
        claimed = rules.claimable(kind, subresource, applied)
        claimed["metadata"].pop("resourceVersion", None)
        old = record.load() if record else {}
        force = record is None or request.flag("force")
        applied = _normalised(request, claimed)
        new, owners = managers.apply(kind.schema, old, applied, manager, meta.now(), force=force)
        return await self.change(request, Change(record, old, new, owners))

    async def _check_new(self, request: Request, metadata: Object) -> None:
        """Whether an apply or a PUT may make what is not there yet."""
        if request.target.subresource:
            raise not_found(request.kind, request.name)
        if uid := metadata.get("uid"):
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(request.kind, request.name, text)
        await self.admission.may_create(request)

    def _live(self, request: Request) -> Record:
        record = self.store.get(request.kind.resource, request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        return record

    # -- what every write goes through

    async def change(self, request: Request, change: Change) -> Answer:
        """Carry a write through. Raises StatusError, Moved."""
        kind, old, new = request.kind, change.old, change.new
        new.pop("kind", None), new.pop("apiVersion", None)
        if change.record is None:
            meta.prepare_create(kind, new)
            if kind.has_status and kind.resource != "nodes":
                new.pop("status", None)
        if fault := rules.decode(kind, new):
            raise _mistyped(request, fault)
        if change.record:
            meta.keep_identity(kind, old, new)
            new = rules.keep_parts(kind, request.target.subresource, old, new)
        rules.set_defaults(kind, new)
        _settle_owners(request, change, new)
        owners = new["metadata"].get("managedFields")
        operation = Operation(request, "UPDATE" if old else "CREATE", new, old or None, change.warnings)
        await self.admission.mutate(operation)
        # What comes from here on belongs to nobody.
        new = operation.item
        rules.decode(kind, new)
        rules.set_defaults(kind, new)
        if hindrances := rules.complete(kind, old or None, new):
            raise invalid(kind, new["metadata"].get("name", ""), hindrances)
        if change.record:
            meta.keep_identity(kind, old, new)
            _count_generation(request, old, new)
        new["metadata"].pop("managedFields", None)
        new["metadata"] |= {"managedFields": owners} if owners else {}
        causes = meta.update_faults(kind, old, new) if old else meta.validate_new(kind, new)
        causes += rules.validate(kind, new, old or None)
        if causes:
            raise invalid(kind, new["metadata"].get("name", ""), causes)
        await self.admission.validate(operation)
        if change.record is None:
            change.warnings.extend(rules.warnings(kind, new))
        return Answer(200 if old else 201, self._store(request, change, new), headers=_told(change.warnings))

    def _store(self, request: Request, change: Change, new: Object) -> bytes:
        """The JSON of what is stored in the end. Raises Moved."""
        kind, record, metadata = request.kind, change.record, new["metadata"]
        key = (request.namespace, metadata["name"])
        if record is None and (there := self.store.get(kind.resource, key)) is not None:
            raise already_exists(kind, key[1], deleting="deletionTimestamp" in there.load()["metadata"])
        if record and new == change.old:
            return record_json(kind, record)
        if request.dry_run:
            return object_json(kind, new)
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        held = held or (new.get("spec") or {}).get("finalizers")
        if record and "deletionTimestamp" in metadata and not held:
            self.store.remove(kind.resource, key, record.version)
            return object_json(kind, new)
        return record_json(kind, self.store.put(kind.resource, key, new, record.version if record else 0))


def _check(request: Request, item: Object, faults: list[str]) -> list[str]:
    """Bring a whole object into form and hold it against kind and path; the warnings. Raises StatusError 400."""
    try:
        bodies.check_type(request, item)
    except StatusError as error:
        if request.method == "PATCH":
            raise _mistyped(request, error.message) from error
        if request.kind.custom and item.get("apiVersion") != request.kind.api_version:
            # Nothing is known of that version, so no field is.
            unknown = [name for name in item if name not in ("apiVersion", "kind", "metadata")]
            error.headers += _told(f'unknown field "{name}"' for name in unknown)
        raise
    warnings: list[str] = []
    unknown = [f'unknown field "{path}"' for path in schemas.prune(request.kind.schema, item)]
    bodies.check_faults(request, faults + unknown, warnings.append)
    item["metadata"] = dict(item.get("metadata") or {})
    _check_place(request, item["metadata"])
    return warnings


def _check_place(request: Request, metadata: Object) -> None:
    """Raises StatusError 400 where the body says another place than the path."""
    meta.settle_namespace(request.kind, request.namespace, metadata)
    name = metadata.get("name")
    if request.name and not name:
        told = f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(told)
    if request.name and name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")


def _check_base(request: Request, record: Record, metadata: Object) -> None:
    """Raises StatusError 409 where the body says another version or uid than there is."""
    version, uid = metadata.get("resourceVersion"), metadata.get("uid")
    if version and not str(version).isdigit():
        raise StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version and int(version) != record.version:
        raise conflict(request.kind, request.name, STALE)
    if uid and uid != record.uid:
        told = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
        raise conflict(request.kind, request.name, told)


def _mistyped(request: Request, fault: str) -> StatusError:
    kind = request.kind
    if request.method == "PATCH":
        # A real server quotes the whole object here, secrets too; that is not copied.
        return invalid(("", ""), "", [Cause("FieldValueInvalid", f"Invalid value: {fault}", "patch")])
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {fault}')


def _applier(request: Request) -> str:
    name = request.query.get("fieldManager", "")
    if not name:
        fault = required("fieldManager", "is required for apply patch")
    elif len(name) > LONGEST_MANAGER:
        fault = Cause("FieldValueTooLong", f"Too long: may not be more than {LONGEST_MANAGER} bytes", "fieldManager")
    else:
        return name
    raise invalid(("meta.k8s.io", "PatchOptions"), "", [fault])


def _applied(request: Request) -> Object:
    """The configuration of an apply. Raises StatusError 400."""
    applied = bodies.parse(request).item
    if not (applied.get("kind") and applied.get("apiVersion")):
        named = f"{applied.get('apiVersion') or '/'}, Kind={applied.get('kind') or ''}"
        raise bad_request(f"invalid object type: {named}")
    bodies.check_type(request, applied)
    applied["metadata"] = dict(applied.get("metadata") or {})
    if applied["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    _check_place(request, applied["metadata"])
    return applied


def _normalised(request: Request, applied: Object) -> Object:
    """An applied configuration in stored form. Raises StatusError 500, as a real server does."""
    kind = request.kind
    unknown = schemas.prune(kind.schema, applied)
    fault = f".{unknown[0]}: field not declared in schema" if unknown else rules.decode_values(kind, applied)
    fault = fault or doubled(kind.schema, applied)
    if fault:
        place = f"{request.namespace}/{request.name}; {kind.api_version}, Kind={kind.kind}"
        raise StatusError(500, "", f"failed to create typed patch object ({place}): {fault}")
    return applied


def _count_generation(request: Request, old: Object, new: Object) -> None:
    kind = request.kind
    apart = {"metadata", "status"} if kind.has_status else {"metadata"}
    changed = any(old.get(name) != new.get(name) for name in (old.keys() | new.keys()) - apart)
    if kind.resource == "deployments.apps" and not request.target.subresource:
        # Their annotations go on to their ReplicaSets.
        changed = changed or old["metadata"].get("annotations") != new["metadata"].get("annotations")
    if kind.generation and changed:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _settle_owners(request: Request, change: Change, new: Object) -> None:
    if change.owners is None:
        manager = Manager(request.manager, "Update", request.kind.api_version, request.target.subresource)
        managers.after_update(request.kind.schema, change.old, new, manager, meta.now())
        return
    managers.write(new, change.owners)


def _told(warnings: Iterable[str]) -> list[tuple[str, str]]:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in dict.fromkeys(warnings)]
    return [("Warning", f'299 - "{text}"') for text in quoted]
