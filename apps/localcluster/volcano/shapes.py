"""What is kept of pods and nodes: a thousand of them are to fit into a small program."""

from __future__ import annotations

import sys
from typing import Any

Object = dict[str, Any]

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
_POD = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulerName",
    "schedulingGates",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "overhead",
)


def pod(item: Object) -> Object:
    """A pod without what only a node's agent reads."""
    spec, status = item["spec"], item.get("status") or {}
    kept = _some(spec, _POD)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [_shared(_some(container, ("resources", "restartPolicy"))) for container in spec[kind]]
    claims = [_some(volume, ("persistentVolumeClaim",)) for volume in spec.get("volumes") or []]
    kept["volumes"] = [volume for volume in claims if volume]
    seen = _some(status, ("phase", "conditions"))
    if statuses := status.get("containerStatuses"):
        seen["containerStatuses"] = [_shared(_container(given)) for given in statuses]
    return {**_whole(item, "Pod"), "spec": _shared(kept), "status": _shared(seen)}


def _container(given: Object) -> Object:
    ended = (given.get("state") or {}).get("terminated")
    state = {"state": {"terminated": {"exitCode": ended.get("exitCode", 0)}}} if ended else {}
    return {"ready": bool(given.get("ready")), "restartCount": given.get("restartCount", 0), **state}


def node(item: Object) -> Object:
    """A node without its images, addresses and versions."""
    status = item.get("status") or {}
    ready = [_some(c, ("type", "status")) for c in status.get("conditions") or [] if c.get("type") == "Ready"]
    spec = _some(item.get("spec") or {}, ("unschedulable", "taints"))
    kept = {"allocatable": _shared(status.get("allocatable") or {}), "conditions": ready}
    return {**_whole(item, "Node"), "spec": spec, "status": kept}


def _whole(item: Object, kind: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": _shared(_some(item["metadata"], _METADATA))}


def _some(part: Object, keys: tuple[str, ...]) -> Object:
    return {key: part[key] for key in keys if part.get(key) is not None}


def _shared(value: Any) -> Any:
    """The same value, its texts kept once however many objects name them."""
    if isinstance(value, dict):
        return {sys.intern(key): _shared(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shared(inner) for inner in value]
    return sys.intern(value) if isinstance(value, str) else value
