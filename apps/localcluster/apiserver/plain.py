"""Built-in kinds other than pods: tables of decoders, defaults and validators by kind."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from apps.localcluster.apiserver import limits, podsecurity, quota, validation, workloads
from apps.localcluster.apiserver.errors import Cause
from apps.localcluster.apiserver.meta import now
from apps.localcluster.apiserver.pods import set_pod_defaults

Object = dict[str, Any]


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects have gone."""


def merge_texts(secret: Object) -> None:
    """stringData is written into data."""
    texts = secret.pop("stringData", None) or {}
    if texts:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def secret_fields(item: Object) -> dict[str, str]:
    return {"type": item.get("type", "")}


def _namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    if "deletionTimestamp" not in metadata:
        namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _service(service: Object) -> None:
    spec = service["spec"]
    for port in spec.get("ports") or ():
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        # No addresses are given out: a name leads straight to the pods, as with a headless service.
        spec.setdefault("clusterIP", "None")
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
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


def _definition(definition: Object) -> None:
    spec = definition["spec"]
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
    metadata = definition["metadata"]
    if "deletionTimestamp" not in metadata and CLEANUP not in (metadata.get("finalizers") or ()):
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
    status = definition.setdefault("status", {})
    status.setdefault("conditions", None)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    status["storedVersions"] = status.get("storedVersions") or stored


def establish(definition: Object) -> bool:
    """Accept the names of a definition; False when that was done already."""
    status, names = definition["status"], definition["spec"]["names"]
    if status.get("conditions") and status["acceptedNames"] == names:
        return False
    status["acceptedNames"] = dict(names)
    status["conditions"] = [
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    return True


def condition(type_: str, reason: str, message: str) -> Object:
    """A condition that holds since now."""
    return {"type": type_, "status": "True", "lastTransitionTime": now(), "reason": reason, "message": message}


DEFAULTS: dict[str, Callable[[Object], None]] = {
    "Pod": set_pod_defaults,
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
    "CustomResourceDefinition": _definition,
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
    "NetworkPolicy": validation.network_policy,
    "PriorityClass": validation.priority_class,
    "CustomResourceDefinition": validation.definition,
    "Pod": validation.pod,
    "ConfigMap": validation.data,
    "Secret": validation.data,
    "Role": validation.role,
    "ClusterRole": validation.cluster_role,
}
UPDATE_VALIDATORS: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "Deployment": workloads.selector_update,
    "ReplicaSet": workloads.selector_update,
    "Job": workloads.job_update,
    "Pod": validation.pod_update,
    "ConfigMap": validation.data_update,
    "Secret": validation.data_update,
    "PersistentVolumeClaim": validation.claim_update,
    "PriorityClass": validation.priority_update,
    "RoleBinding": validation.binding_update,
    "ClusterRoleBinding": validation.binding_update,
}
WARNINGS: dict[str, Callable[[Object], list[str]]] = {"Pod": validation.pod_warnings}
