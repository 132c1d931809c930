"""Pods: what of them can be selected, and defaults that depend on other values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from apps.localcluster.apiserver import quantities
from apps.localcluster.apiserver.errors import Cause

Object = dict[str, Any]

BURSTABLE, GUARANTEED, BEST_EFFORT = "Burstable", "Guaranteed", "BestEffort"


def selectable(item: Object) -> dict[str, str]:
    """Values for the field selectors of pods."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def set_pod_defaults(pod: Object) -> None:
    """Defaults of a pod that depend on other values; the fixed ones stand in its schema."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    set_image_policies(spec)
    for container in containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | (resources.get("requests") or {})


def complete(_: Object | None, pod: Object) -> list[Cause]:
    """The status that a pod begins with."""
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", quality(pod["spec"]))
    return []


def set_image_policies(spec: Object) -> None:
    """An image without a tag, or with `latest`, is pulled anew each time."""
    for container in containers(spec):
        name = str(container.get("image", "")).rpartition("/")[2]
        tagged = "@" in name or (":" in name and not name.endswith(":latest"))
        container.setdefault("imagePullPolicy", "IfNotPresent" if tagged else "Always")


def containers(spec: Object) -> list[Object]:
    """All containers of a pod, those that come first first."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def total(spec: Object, part: str) -> dict[str, Decimal]:
    """What a pod asks for (`requests` or `limits`): the sum of its containers, or its largest first one."""
    sums: dict[str, Decimal] = {}
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
                value, before = quantities.value(amount), sums.get(name, Decimal(0))
                sums[name] = before + value if field == "containers" else max(before, value)
    return sums


def quality(spec: Object) -> str:
    """Quality of service class."""
    guaranteed, any_set = True, False
    for container in containers(spec):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            any_set = any_set or name in limits or name in requests
            guaranteed = guaranteed and name in limits and limits[name] == requests.get(name)
    if not any_set:
        return BEST_EFFORT
    return GUARANTEED if guaranteed else BURSTABLE
