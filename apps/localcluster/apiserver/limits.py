"""LimitRange: defaults for containers that say nothing, and bounds on containers, pods and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.localcluster.apiserver import pods, quantities
from apps.localcluster.apiserver.errors import Cause, invalid_value
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

ANNOTATION = "kubernetes.io/limit-ranger"


def set_defaults(limit_range: Object) -> None:
    """A bound of a container stands in for a default that is not given."""
    for limit in limit_range["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            default = (limit.get("max") or {}) | (limit.get("default") or {})
            request = (limit.get("min") or {}) | default | (limit.get("defaultRequest") or {})
            limit |= {name: value for name, value in (("default", default), ("defaultRequest", request)) if value}


def validate(limit_range: Object) -> list[Cause]:
    """No default above the maximum."""
    causes = []
    for index, limit in enumerate(limit_range["spec"].get("limits") or ()):
        for name, most in (limit.get("max") or {}).items():
            default, request = (limit.get(part, {}).get(name) for part in ("default", "defaultRequest"))
            field = f"spec.limits[{index}]"
            if request and quantities.value(request) > quantities.value(most):
                text = f"default request value {request} is greater than max value {most}"
                causes.append(invalid_value(f"{field}.defaultRequest[{name}]", request, text))
            if default and quantities.value(default) > quantities.value(most):
                text = f"default value {default} is greater than max value {most}"
                causes.append(invalid_value(f"{field}.default[{name}]", most, text))
    return causes


def _limits(store: Store, namespace: str) -> list[Object]:
    return [
        limit
        for record in store.select("limitranges", namespace)
        for limit in record.load()["spec"].get("limits") or ()
    ]


def fill(store: Store, namespace: str, pod: Object) -> None:
    """Give containers what the namespace's defaults say, and note it in an annotation."""
    chosen = [limit for limit in _limits(store, namespace) if limit["type"] == "Container"]
    told = []
    for field, kind in (("initContainers", "init container"), ("containers", "container")):
        for container in pod["spec"].get(field) or ():
            resources = container.setdefault("resources", {})
            for part, source, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
                values = {name: value for limit in chosen for name, value in (limit.get(source) or {}).items()}
                fresh = {name: value for name, value in values.items() if name not in (resources.get(part) or {})}
                if fresh:
                    resources[part] = (resources.get(part) or {}) | fresh
                    told.append(f"{', '.join(sorted(fresh))} {word} for {kind} {container['name']}")
    if told:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(told)


def fault(store: Store, resource: str, namespace: str, item: Object) -> str:
    """Everything of a new object that is out of bounds; empty when nothing is."""
    faults: list[str] = []
    for limit in _limits(store, namespace) if resource in ("pods", "persistentvolumeclaims") else ():
        type_ = limit["type"]
        if resource == "pods" and type_ == "Container":
            for container in pods.containers(item["spec"]):
                faults += _faults(limit, container.get("resources") or {})
        elif resource == "pods" and type_ == "Pod":
            faults += _faults(limit, {part: pods.total(item["spec"], part) for part in ("requests", "limits")})
        elif resource != "pods" and type_ == "PersistentVolumeClaim":
            requests = (item["spec"].get("resources") or {}).get("requests") or {}
            faults += _faults(limit, {"requests": requests, "limits": requests}, word="request")
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""


def _faults(limit: Object, resources: Object, word: str = "limit") -> Iterator[str]:
    """`word` is what an amount above the maximum is called."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, least in sorted((limit.get("min") or {}).items()):
        head = f"minimum {name} usage per {limit['type']} is {least}"
        if name not in requests:
            yield f"{head}.  No request is specified"
        elif quantities.value(requests[name]) < quantities.value(least):
            yield f"{head}, but request is {quantities.text(requests[name])}"
    for name, most in sorted((limit.get("max") or {}).items()):
        head = f"maximum {name} usage per {limit['type']} is {most}"
        if name not in limits:
            yield f"{head}.  No limit is specified"
        elif quantities.value(limits[name]) > quantities.value(most):
            yield f"{head}, but {word} is {quantities.text(limits[name])}"
