"""Built-in kinds other than pods: tables of decoders, defaults and validators by kind."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from apps.localcluster.apiserver import validation
from apps.localcluster.apiserver.errors import Cause
from apps.localcluster.apiserver.meta import now
from apps.localcluster.apiserver.pods import decode_pod, set_pod_defaults

Object = dict[str, Any]


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects have gone."""


def decode_secret(secret: Object) -> str:
    """stringData is written into data."""
    for value in (secret.get("data") or {}).values():
        if not isinstance(value, str):
            return "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            return "illegal base64 data at input byte 0"
    texts = secret.pop("stringData", None)
    if isinstance(texts, dict):
        data = secret["data"] if isinstance(secret.get("data"), dict) else {}
        secret["data"] = data | {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
    return ""


def secret_fields(item: Object) -> dict[str, str]:
    return {"type": item.get("type", "")}


def decode_texts(item: Object) -> str:
    """The data of a ConfigMap is text."""
    data = item.get("data")
    if data is None:
        return ""
    if not isinstance(data, dict):
        return "json: cannot unmarshal into Go struct field ConfigMap.data of type map[string]string"
    for value in data.values():
        if not isinstance(value, str):
            kind = "bool" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "object"
            return f"json: cannot unmarshal {kind} into Go struct field ConfigMap.data of type string"
    return ""


def _namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    if "deletionTimestamp" not in metadata:
        namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")


def _service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        # No addresses are given out: a name leads straight to the pods, as with a headless service.
        spec.setdefault("clusterIP", "None")
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def _claim(claim: Object) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _node(node: Object) -> None:
    node.setdefault("spec", {})
    node.setdefault("status", {})


def _binding(binding: Object) -> None:
    for subject in binding.get("subjects") or ():
        group = "" if subject.get("kind") == "ServiceAccount" else "rbac.authorization.k8s.io"
        if group:
            subject.setdefault("apiGroup", group)
    binding.setdefault("roleRef", {}).setdefault("apiGroup", "rbac.authorization.k8s.io")


def _webhooks(configuration: Object) -> None:
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("timeoutSeconds", 10)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")


def _mutating(configuration: Object) -> None:
    _webhooks(configuration)
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def _role(role: Object) -> None:
    role["rules"] = role.get("rules") or None


def _priority(priority: Object) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _definition(definition: Object) -> None:
    spec = definition.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
    metadata = definition["metadata"]
    if "deletionTimestamp" not in metadata and CLEANUP not in (metadata.get("finalizers") or ()):
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
    status = definition.setdefault("status", {})
    status["acceptedNames"] = dict(names)
    status["storedVersions"] = status.get("storedVersions") or stored
    if "conditions" not in status:
        status["conditions"] = [
            {
                "type": type_,
                "status": "True",
                "lastTransitionTime": now(),
                "reason": reason,
                "message": message,
            }
            for type_, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]


DECODERS: dict[str, Callable[[Object], str]] = {"Pod": decode_pod, "Secret": decode_secret, "ConfigMap": decode_texts}
DEFAULTS: dict[str, Callable[[Object], None]] = {
    "Pod": set_pod_defaults,
    "Namespace": _namespace,
    "Secret": _secret,
    "Service": _service,
    "PersistentVolumeClaim": _claim,
    "Node": _node,
    "Role": _role,
    "ClusterRole": _role,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
    "ValidatingWebhookConfiguration": _webhooks,
    "MutatingWebhookConfiguration": _mutating,
    "PriorityClass": _priority,
    "CustomResourceDefinition": _definition,
}
VALIDATORS: dict[str, Callable[[Object], list[Cause]]] = {
    "Pod": validation.pod,
    "ConfigMap": validation.data,
    "Secret": validation.data,
    "Role": validation.role,
    "ClusterRole": validation.cluster_role,
}
UPDATE_VALIDATORS: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "Pod": validation.pod_update,
    "ConfigMap": validation.data_update,
    "Secret": validation.data_update,
    "PersistentVolumeClaim": validation.claim_update,
    "RoleBinding": validation.binding_update,
    "ClusterRoleBinding": validation.binding_update,
}
WARNINGS: dict[str, Callable[[Object], list[str]]] = {"Pod": validation.pod_warnings}
