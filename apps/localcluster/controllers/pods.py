"""Pods as those see them that make them: in what state they are, and how one is made of a template."""

from __future__ import annotations

import math
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.store import Record
from apps.localcluster.controllers.base import Cluster

Object = dict[str, Any]

ENDED = ("Succeeded", "Failed")


def now() -> datetime:
    return datetime.now(UTC)


def age(time: str) -> float:
    """Seconds since a time of the API."""
    return (now() - datetime.fromisoformat(time)).total_seconds()


def is_active(pod: Record) -> bool:
    """Whether it counts as one of its owner's: it has not ended and is not being deleted."""
    return not pod.deleting and pod.fields["status.phase"] not in ENDED


def is_ending(pod: Record) -> bool:
    """Whether it is being deleted and has not ended yet."""
    return pod.deleting and pod.fields["status.phase"] not in ENDED


def condition(item: Object, type_: str) -> Object:
    """A condition by its type; empty when there is none."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type_), {})


def is_ready(pod: Object) -> bool:
    return bool(condition(pod, "Ready").get("status") == "True")


def unavailable_for(pod: Object, seconds: int) -> float:
    """Seconds until a pod has been ready for so long; 0 once it has, infinite while it is not ready."""
    if not is_ready(pod):
        return math.inf
    since = condition(pod, "Ready").get("lastTransitionTime")
    return max(0.0, seconds - age(since)) if seconds and since else 0.0


def set_condition(status: Object, wanted: Object, *, same: tuple[str, ...] = ("status", "reason")) -> None:
    """Put a condition in the place of one of its type, unless that says the same; transitions keep their time."""
    conditions = status.setdefault("conditions", [])
    for index, each in enumerate(conditions):
        if each["type"] == wanted["type"]:
            if all(each.get(name) == wanted.get(name) for name in same):
                return
            if each["status"] == wanted["status"] and "lastTransitionTime" in each:
                wanted["lastTransitionTime"] = each["lastTransitionTime"]
            del conditions[index]
            break
    conditions.append(wanted)


def without(status: Object, type_: str) -> None:
    """Take the conditions of a type away."""
    left = [each for each in status.get("conditions") or () if each["type"] != type_]
    status.pop("conditions", None)
    if left:
        status["conditions"] = left


def share(value: int | str, whole: int, *, up: bool) -> int:
    """A number, or a percentage of a whole, rounded up or down."""
    if isinstance(value, int):
        return value
    part = int(value.rstrip("%")) * whole
    return -(-part // 100) if up else part // 100


async def create_pod(cluster: Cluster, owner: Record, template: Object, component: str, **metadata: Any) -> Object:
    """Make a pod that `owner` controls, and tell so. Raises StatusError."""
    labels, notes = (dict(template["metadata"].get(name) or {}) for name in ("labels", "annotations"))
    prefix = (owner.key[1] + "-")[:58]
    pod: Object = {
        "metadata": {
            "generateName": prefix,
            "namespace": owner.key[0],
            "labels": labels,
            "annotations": notes,
            "finalizers": template["metadata"].get("finalizers") or [],
            "ownerReferences": [cluster.reference(owner)],
            **metadata,
        },
        "spec": deepcopy(template["spec"]),
    }
    try:
        made = await cluster.create("pods", pod)
    except StatusError as error:
        if not _terminating(error):
            await cluster.tell(owner, "Warning", "FailedCreate", f"Error creating: {error.message}", component)
        raise
    await cluster.tell(owner, "Normal", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", component)
    return made


def _terminating(error: StatusError) -> bool:
    causes = (error.details or {}).get("causes") or ()
    return any(each.get("reason") == "NamespaceTerminating" for each in causes)
