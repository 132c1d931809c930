"""Built-in kinds other than pods: tables of decoders, defaults and validators by kind."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from apps.localcluster.apiserver import addresses, definitions, limits, podsecurity, quota, validation, workloads
from apps.localcluster.apiserver.errors import Cause
from apps.localcluster.apiserver.pods import set_pod_defaults

Object = dict[str, Any]


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
    "CustomResourceDefinition": definitions.set_defaults,
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
    "CustomResourceDefinition": definitions.validate,
    "Pod": validation.pod,
    "ConfigMap": validation.data,
    "Secret": validation.secret,
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
    "Service": addresses.changed,
    "RoleBinding": validation.binding_update,
    "ClusterRoleBinding": validation.binding_update,
}
WARNINGS: dict[str, Callable[[Object], list[str]]] = {"Pod": validation.pod_warnings}
