"""Object metadata: names, what the server sets, and what may never change."""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.localcluster.apiserver.errors import Cause, bad_request, forbidden_value, invalid, invalid_value, required
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.selectors import LABEL_VALUE, VALUE_RULE

Object = dict[str, Any]

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_KINDS = {"Namespace", "Service"}
FREE_NAMES = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
STANDARD_FINALIZERS = {"kubernetes", "orphan", "foregroundDeletion"}
SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def now(seconds: int = 0) -> str:
    """The time in so many seconds, RFC 3339 to the second."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def suffix() -> str:
    """Five letters that tell generated names apart."""
    return "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))


def name_faults(kind: Kind, name: str) -> list[Cause]:
    """What is wrong with a name for this kind."""
    field = "metadata.name"
    if kind.kind in FREE_NAMES:
        if name in (".", "..") or "/" in name or "%" in name:
            return [invalid_value(field, name, "may not contain '/'" if "/" in name else f"may not be '{name}'")]
        return []
    if kind.kind in LABEL_KINDS:
        limit, pattern, rule = 63, LABEL, LABEL_RULE
    else:
        limit, pattern, rule = 253, SUBDOMAIN, SUBDOMAIN_RULE
    faults = []
    if len(name) > limit:
        faults.append(invalid_value(field, name, f"must be no more than {limit} characters"))
    if kind.kind in LABEL_KINDS and "." in name:
        faults.append(invalid_value(field, name, "must not contain dots"))
    elif not pattern.fullmatch(name) or name.endswith("\n"):
        faults.append(invalid_value(field, name, rule))
    return faults


def label_faults(metadata: Object) -> list[Cause]:
    faults = []
    for key, value in (metadata.get("labels") or {}).items():
        faults += key_faults("metadata.labels", key)
        if len(str(value)) > 63:
            faults.append(invalid_value("metadata.labels", value, "must be no more than 63 bytes"))
        if not LABEL_VALUE.fullmatch(str(value)):
            faults.append(invalid_value("metadata.labels", value, VALUE_RULE))
    for key in metadata.get("annotations") or {}:
        faults += key_faults("metadata.annotations", key.lower())
    return faults


def finalizer_faults(kind: Kind, metadata: Object) -> list[Cause]:
    """Finalizers have a prefix, but for those of Kubernetes itself. Kinds of the extension servers may do without."""
    if kind.custom or kind.group in ("apiextensions.k8s.io", "admissionregistration.k8s.io"):
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", each, text)
        for index, each in enumerate(metadata.get("finalizers") or ())
        if "/" not in each and each not in STANDARD_FINALIZERS
    ]


def owner_faults(metadata: Object) -> list[Cause]:
    """Every part of an owner reference is there."""
    return [
        invalid_value(f"metadata.ownerReferences.{field}", "", "must not be empty")
        for each in metadata.get("ownerReferences") or ()
        for field in ("apiVersion", "kind", "name", "uid")
        if not each.get(field)
    ]


def key_faults(field: str, key: str) -> list[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and SUBDOMAIN.fullmatch(prefix)):
        return [invalid_value(field, key, "prefix part " + SUBDOMAIN_RULE)]
    if not QUALIFIED.fullmatch(name):
        return [invalid_value(field, key, QUALIFIED_RULE)]
    return [invalid_value(field, key, "name part must be no more than 63 bytes")] if len(name) > 63 else []


def settle_namespace(kind: Kind, namespace: str, metadata: Object) -> None:
    """Take the namespace of the path. Raises StatusError 400 when the body names another."""
    sent = metadata.get("namespace")
    if sent and sent != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if kind.namespaced:
        metadata["namespace"] = namespace


def prepare_create(kind: Kind, item: Object) -> None:
    """Give a new object its name and identity; what only the server sets is dropped."""
    metadata = item["metadata"]
    for name in SERVER_FIELDS:
        metadata.pop(name, None)
    metadata.pop("managedFields", None)
    if metadata.pop("resourceVersion", None):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"][:58] + suffix()
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now()
    if kind.generation:
        metadata["generation"] = 1


def validate_new(kind: Kind, item: Object) -> list[Cause]:
    """What is wrong with the metadata of a new object."""
    metadata = item["metadata"]
    if not metadata.get("name"):
        return [required("metadata.name", "name or generateName is required")]
    faults = name_faults(kind, metadata["name"]) + label_faults(metadata) + owner_faults(metadata)
    for each in metadata.get("finalizers") or ():
        faults += key_faults("metadata.finalizers", each)
    return faults + finalizer_faults(kind, metadata)


def keep_identity(kind: Kind, old: Object, new: Object) -> None:
    """Carry over what no update may change. Raises StatusError for a changed uid."""
    before, after = old["metadata"], new["metadata"]
    sent = after.get("uid")
    if sent and sent != before["uid"]:
        fault = invalid_value("metadata.uid", sent, "field is immutable")
        raise invalid(kind, before["name"], [fault, fault])
    if before.get("namespace"):
        after["namespace"] = before["namespace"]
    for name in (*SERVER_FIELDS, "generation", "resourceVersion", "managedFields"):
        after.pop(name, None)
        if name in before:
            after[name] = before[name]


def update_faults(kind: Kind, old: Object, new: Object) -> list[Cause]:
    """What is wrong with the metadata of an update."""
    before, after = old["metadata"], new["metadata"]
    faults = label_faults(after) + owner_faults(after)
    faults += finalizer_faults(kind, after) * 2  # a real server says so twice
    if "deletionTimestamp" in before:
        had = before.get("finalizers") or []
        more = [each for each in after.get("finalizers") or [] if each not in had]
        if more:
            listed = ", ".join(f'"{each}"' for each in more)
            fault = forbidden_value(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
            )
            faults += [fault, fault]
    return faults


def tidy(item: Object) -> None:
    """Drop empty lists and maps of metadata, as the real server writes them out."""
    metadata = item["metadata"]
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "generateName"):
        if name in metadata and not metadata[name]:
            del metadata[name]
