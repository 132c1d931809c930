"""What is special about single kinds: decoding, defaults, validation, and which parts an update may touch."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import addresses, custom, plain, pods, schemas
from apps.localcluster.apiserver.errors import Cause
from apps.localcluster.apiserver.kinds import Kind

Object = dict[str, Any]


def prune(kind: Kind, item: Object) -> list[str]:
    """Drop fields that the kind does not have; gives their paths."""
    return schemas.prune(kind.schema, item)


def decode(kind: Kind, item: Object) -> str:
    """Bring values into their stored form (quantities, stringData); a text when a value has the wrong type."""
    if kind.custom:
        return ""
    fault = schemas.decode(kind.schema, item)
    if not fault and kind.kind == "Secret":
        plain.merge_texts(item)
    return fault and fault.replace("Go struct field ", f"Go struct field {kind.kind}.")


def set_defaults(kind: Kind, item: Object) -> None:
    """Fill in what a real server fills in."""
    schemas.set_defaults(kind.schema, item)
    if not kind.custom and (setter := plain.DEFAULTS.get(kind.kind)):
        setter(item)


def settle(kind: Kind, item: Object) -> None:
    """Bring what webhooks have written into form."""
    decode(kind, item)
    set_defaults(kind, item)


def validate_new(kind: Kind, item: Object) -> list[Cause]:
    if kind.custom:
        return custom.validate(kind.schema, item)
    check = plain.VALIDATORS.get(kind.kind)
    return check(item) if check else []


def warnings(kind: Kind, item: Object) -> list[str]:
    """Warnings about a new object that is accepted."""
    warner = None if kind.custom else plain.WARNINGS.get(kind.kind)
    return warner(item) if warner else []


def validate_update(kind: Kind, old: Object, new: Object) -> list[Cause]:
    if kind.custom:
        return custom.validate(kind.schema, new, old)
    causes = plain.VALIDATORS[kind.kind](new) if kind.kind in plain.VALIDATORS and kind.kind != "Pod" else []
    check = plain.UPDATE_VALIDATORS.get(kind.kind)
    return causes + (check(old, new) if check else [])


def claimable(kind: Kind, subresource: str, applied: Object) -> Object:
    """The part of an applied configuration that counts on this path."""
    if subresource == "status":
        kept = {name: applied[name] for name in ("kind", "apiVersion", "status") if name in applied}
        names = ("name", "namespace", "uid", "resourceVersion")
        metadata = {name: value for name, value in applied["metadata"].items() if name in names}
        return kept | {"metadata": metadata}
    if kind.has_status:
        return {name: value for name, value in applied.items() if name != "status"}
    return applied


def keep_parts(kind: Kind, subresource: str, old: Object, new: Object) -> Object:
    """`new` with everything restored from `old` that this path may not change."""
    if subresource == "status":
        metadata = deepcopy(old["metadata"]) if kind.custom else new["metadata"]
        kept = {name: value for name, value in old.items() if name not in ("metadata", "status")}
        result = kept | {"metadata": metadata}
        if "ownerReferences" in old["metadata"]:
            metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
        return result | ({"status": new["status"]} if "status" in new else {})
    if subresource == "finalize":
        return old | {"spec": new.get("spec") or {}, "metadata": old["metadata"]}
    if kind.resource == "services":
        addresses.keep(old, new)
    if kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


FIELD_SOURCES: dict[str, Callable[[Object], dict[str, str]]] = {
    "pods": pods.selectable,
    "jobs.batch": lambda job: {"status.successful": str((job.get("status") or {}).get("succeeded", 0))},
    "secrets": plain.secret_fields,
}


def selectable_fields(resource: str, item: Object) -> dict[str, str]:
    """Values of the field selectors that are asked for often; others are looked up when needed."""
    source = FIELD_SOURCES.get(resource)
    return source(item) if source else {}
