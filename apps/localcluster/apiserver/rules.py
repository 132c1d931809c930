"""What is special about single kinds: decoding, defaults, validation, and which parts an update may touch."""

from __future__ import annotations

import base64
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import (
    addresses,
    custom,
    definitions,
    limits,
    pods,
    podsecurity,
    quota,
    schemas,
    validation,
    workloads,
)
from apps.localcluster.apiserver.errors import Cause
from apps.localcluster.apiserver.kinds import Kind

Object = dict[str, Any]


def decode(kind: Kind, item: Object) -> str:
    """Bring values into their stored form; a text when one has the wrong type."""
    if fault := decode_values(kind, item):
        return fault
    if kind.custom:
        schemas.omit_empty(schemas.METADATA, item["metadata"])
        return ""
    schemas.omit_empty(kind.schema, item)
    if kind.kind == "Secret" and (texts := item.pop("stringData", None)):
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        item["data"] = (item.get("data") or {}) | encoded
    return ""


def decode_values(kind: Kind, item: Object) -> str:
    """Bring quantities into their stored form; a text when a value has the wrong type. Of a custom kind nothing but
    its metadata is known this early."""
    return schemas.decode(schemas.METADATA, item["metadata"]) if kind.custom else schemas.decode(kind.schema, item)


def set_defaults(kind: Kind, item: Object) -> None:
    """Fill in what a real server fills in."""
    schemas.set_defaults(kind.schema, item)
    if not kind.custom and (setter := DEFAULTS.get(kind.kind)):
        setter(item)


def complete(kind: Kind, old: Object | None, new: Object) -> list[Cause]:
    """Fill in what a real server fills in after it has settled who owns what; what hinders it."""
    completer = None if kind.custom else COMPLETERS.get(kind.kind)
    return completer(old, new) if completer else []


def validate(kind: Kind, new: Object, old: Object | None = None) -> list[Cause]:
    """What is wrong with a new object, or with an update of `old`."""
    if kind.custom:
        return custom.validate(kind.schema, new, old)
    causes = validation.check(kind.kind, new)
    if old is not None and kind.kind in UPDATE_FIRST:
        causes += UPDATE_VALIDATORS[kind.kind](old, new)
    # Hardly anything of a pod may change: what has not been judged once is not judged again.
    if kind.kind in VALIDATORS and (old is None or kind.kind != "Pod"):
        causes += VALIDATORS[kind.kind](new)
    causes += validation.check_kept(kind.kind, old, new) if old is not None else []
    if old is not None and kind.kind in UPDATE_VALIDATORS and kind.kind not in UPDATE_FIRST:
        causes += UPDATE_VALIDATORS[kind.kind](old, new)
    return causes


def warnings(kind: Kind, item: Object) -> list[str]:
    """Warnings about a new object that is accepted."""
    warner = None if kind.custom else WARNINGS.get(kind.kind)
    return warner(item) if warner else []


def selectable_fields(resource: str, item: Object) -> dict[str, str]:
    """Values of the field selectors that are asked for often; others are looked up when needed."""
    return FIELDS[resource](item) if resource in FIELDS else {}


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
        for name in ("ownerReferences", *(["labels"] if kind.resource == "deployments.apps" else [])):
            metadata.pop(name, None)
            metadata |= {name: old["metadata"][name]} if name in old["metadata"] else {}
        return result | ({"status": new["status"]} if "status" in new else {})
    if subresource == "finalize":
        return old | {"spec": new.get("spec") or {}, "metadata": old["metadata"]}
    if kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


def _namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}


def _complete_namespace(_: Object | None, namespace: Object) -> list[Cause]:
    if "deletionTimestamp" not in namespace["metadata"]:
        namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")
    return []


def _service(service: Object) -> None:
    spec = service["spec"]
    for port in spec.get("ports") or ():
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _network_policy(policy: Object) -> None:
    spec = policy["spec"]
    spec.setdefault("policyTypes", ["Ingress", *(["Egress"] if spec.get("egress") else [])])


def _binding(binding: Object) -> None:
    for subject in binding.get("subjects") or ():
        if subject.get("kind") != "ServiceAccount":
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _role(role: Object) -> None:
    role["rules"] = role.get("rules") or None


DEFAULTS: dict[str, Callable[[Object], None]] = {
    "Pod": pods.set_pod_defaults,
    "Deployment": workloads.deployment_defaults,
    "ReplicaSet": workloads.template_defaults,
    "Job": workloads.job_defaults,
    "Namespace": _namespace,
    "Service": _service,
    "LimitRange": limits.set_defaults,
    "NetworkPolicy": _network_policy,
    "Role": _role,
    "ClusterRole": _role,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
    "CustomResourceDefinition": definitions.set_defaults,
}
COMPLETERS: dict[str, Callable[[Object | None, Object], list[Cause]]] = {
    "Namespace": _complete_namespace,
    "Pod": pods.complete,
    "Service": addresses.complete,
}
VALIDATORS: dict[str, Callable[[Object], list[Cause]]] = {
    "Deployment": workloads.deployment,
    "ReplicaSet": workloads.replica_set,
    "Job": workloads.job,
    "PodDisruptionBudget": workloads.budget,
    "Event": validation.event,
    "ResourceQuota": quota.validate,
    "LimitRange": limits.validate,
    "Namespace": podsecurity.label_faults,
    "PriorityClass": validation.priority_class,
    "CustomResourceDefinition": definitions.validate,
    "Pod": validation.pod,
    "Service": validation.service,
    "ConfigMap": validation.data,
    "Secret": validation.secret,
    "Role": validation.role,
}
UPDATE_FIRST = ("Service", "ConfigMap", "Secret")
"""Kinds of which a real server tells first what must not change."""
UPDATE_VALIDATORS: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "Job": workloads.job_update,
    "Pod": validation.pod_update,
    "ConfigMap": validation.data_update,
    "Secret": validation.data_update,
    "PersistentVolumeClaim": validation.claim_update,
    "Service": addresses.changed,
    "RoleBinding": validation.binding_update,
    "ClusterRoleBinding": validation.binding_update,
}
WARNINGS: dict[str, Callable[[Object], list[str]]] = {"Pod": validation.pod_warnings}
FIELDS: dict[str, Callable[[Object], dict[str, str]]] = {
    "pods": pods.selectable,
    "jobs.batch": lambda job: {"status.successful": str((job.get("status") or {}).get("succeeded", 0))},
    "secrets": lambda secret: {"type": secret.get("type", "")},
}
