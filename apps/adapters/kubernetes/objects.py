"""The one place where paths and query parameters of the Kubernetes API are written.

An empty namespace in a path lists every namespace, and an unknown query parameter is ignored by the server: a slip here
would read or delete what belongs to somebody else. So both are refused before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""An object as the API server sends it."""

FIELD_MANAGER = "maas-portal"


@dataclass(frozen=True)
class Kind:
    """A kind of object: `api` is `v1` or `group/version`; `plural` is its name in paths."""

    name: str
    api: str
    plural: str
    namespaced: bool = True


NAMESPACE = Kind("Namespace", "v1", "namespaces", namespaced=False)
NODE = Kind("Node", "v1", "nodes", namespaced=False)
POD = Kind("Pod", "v1", "pods")
SERVICE = Kind("Service", "v1", "services")
SECRET = Kind("Secret", "v1", "secrets")
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps")
EVENT = Kind("Event", "v1", "events")
SERVICE_ACCOUNT = Kind("ServiceAccount", "v1", "serviceaccounts")
RESOURCE_QUOTA = Kind("ResourceQuota", "v1", "resourcequotas")
LIMIT_RANGE = Kind("LimitRange", "v1", "limitranges")
VOLUME_CLAIM = Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims")
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments")
ROLE = Kind("Role", "rbac.authorization.k8s.io/v1", "roles")
ROLE_BINDING = Kind("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings")
NETWORK_POLICY = Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies")
PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
VOLCANO_JOB = Kind("Job", "batch.volcano.sh/v1alpha1", "jobs")
VOLCANO_COMMAND = Kind("Command", "bus.volcano.sh/v1alpha1", "commands")
POD_GROUP = Kind("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups")
QUEUE = Kind("Queue", "scheduling.volcano.sh/v1beta1", "queues", namespaced=False)

KINDS: Mapping[tuple[str, str], Kind] = {
    (kind.api, kind.name): kind for kind in list(vars().values()) if isinstance(kind, Kind)
}

# Names are lower-case DNS names; RBAC names may carry a colon. fullmatch, because `$` lets a trailing newline through.
_SEGMENT = re.compile(r"[a-z0-9]([a-z0-9.:-]{0,251}[a-z0-9])?")
_SUBRESOURCES = frozenset({"status", "scale", "log", "binding", "eviction", "token"})
_PATH = re.compile(r"(/api/v1|/apis/[a-z0-9.-]+/v[a-z0-9]+|/version)(/[a-z0-9]([a-z0-9.:-]*[a-z0-9])?)*")


def kind_of(body: Mapping[str, Any]) -> Kind:
    """The kind of a manifest. Raises KeyError for one the portal does not know."""
    return KINDS[str(body["apiVersion"]), str(body["kind"])]


def path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of an object, or of a collection when there is no name.

    Raises ValueError for a namespaced kind without a namespace, and for a segment that is no Kubernetes name.
    """
    if bool(namespace) != kind.namespaced:
        raise ValueError(f"{kind.name} needs {'a' if kind.namespaced else 'no'} namespace, got {namespace!r}.")
    if subresource and (subresource not in _SUBRESOURCES or not name):
        raise ValueError(f"No such subresource of an object: {subresource!r}.")
    segments = [everywhere(kind).rpartition("/")[0]]
    segments += ["namespaces", _segment(namespace)] if kind.namespaced else []
    segments += [kind.plural]
    segments += [_segment(name)] if name else []
    segments += [subresource] if subresource else []
    return "/".join(segments)


def everywhere(kind: Kind) -> str:
    """The path of a kind's objects in all namespaces (to list or to watch)."""
    return f"/api/{kind.api}/{kind.plural}" if "/" not in kind.api else f"/apis/{kind.api}/{kind.plural}"


def object_path(manifest: Mapping[str, Any]) -> str:
    """The path of the object a manifest describes, or of its collection when it has no name."""
    metadata = manifest["metadata"]
    return path(kind_of(manifest), metadata.get("namespace", ""), metadata.get("name", ""))


def checked(raw: str) -> str:
    """A path as this module writes them, or ValueError: nothing else may reach the wire."""
    if not _PATH.fullmatch(raw) or ".." in raw:
        raise ValueError(f"Not a path of the Kubernetes API: {raw!r}.")
    return raw


def names_object(raw: str) -> bool:
    """Whether a path ends in one object (not a collection, nor a subresource)."""
    rest = raw.split("/")[3:] if raw.startswith("/api/") else raw.split("/")[4:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return len(rest) == 2


def is_secret(raw: str) -> bool:
    """Whether a path speaks of Secrets, whose contents may stand in any answer."""
    return "secrets" in raw.split("/")


def _segment(text: str) -> str:
    if not _SEGMENT.fullmatch(text):
        raise ValueError(f"Not a name in Kubernetes: {text!r}.")
    return text


_PARAMETERS = {
    "label_selector": "labelSelector",
    "field_selector": "fieldSelector",
    "limit": "limit",
    "continue_": "continue",
    "resource_version": "resourceVersion",
    "watch": "watch",
    "bookmarks": "allowWatchBookmarks",
    "timeout_seconds": "timeoutSeconds",
    "field_manager": "fieldManager",
    "field_validation": "fieldValidation",
    "force": "force",
    "dry_run": "dryRun",
    "container": "container",
    "follow": "follow",
    "previous": "previous",
    "since_time": "sinceTime",
    "tail_lines": "tailLines",
    "limit_bytes": "limitBytes",
    "timestamps": "timestamps",
}


def query(**params: str | int | bool | None) -> list[tuple[str, str]]:
    """Query parameters under the API's names. None, "" and False are left out; an unknown name is a KeyError."""
    pairs = []
    for name, value in params.items():
        key = _PARAMETERS[name]
        if value is None or value == "" or value is False:
            continue
        if name == "dry_run":
            value = "All"
        pairs.append((key, "true" if value is True else str(value)))
    return pairs
