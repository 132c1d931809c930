"""Objects as rows and columns, the way `kubectl get` asks for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver.errors import Cause, invalid
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.requests import PARTIAL, Request
from apps.localcluster.apiserver.workloads import written_selector

Object = dict[str, Any]

AGE = ("Age", "age")
NONE = "<none>"
MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def partial(item: Object) -> Object:
    """The metadata of an object alone."""
    return {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def table(request: Request, items: Sequence[Object], metadata: Object, *, columns: bool = True) -> Object:
    """A Table of objects (with kind and apiVersion). Raises StatusError 422 for an unknown `includeObject`."""
    include = request.query.get("includeObject", "Metadata")
    if include not in ("None", "Metadata", "Object"):
        text = f'Unsupported value: "{include}": supported values: "Metadata", "Object", "None"'
        raise invalid(("meta.k8s.io", "TableOptions"), "", [Cause("FieldValueNotSupported", text, "includeObject")])
    sources = _columns(request.kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [definition for definition, _ in sources] if columns else None,
        "rows": [{"cells": [cell(item) for _, cell in sources], "object": _object(item, include)} for item in items],
    }


def _object(item: Object, include: str) -> Object | None:
    if include == "Metadata":
        return partial(item)
    return item if include == "Object" else None


Column = tuple[Object, Callable[[Object], Any]]


@cache
def _built_in() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.load(
        Path(__file__).with_name("tables.yaml").read_text(), Loader=yaml.CSafeLoader
    )
    return found


def _columns(kind: Kind) -> list[Column]:
    name = (_definition("Name", form="name"), lambda item: item["metadata"]["name"])
    if kind.custom:
        if not kind.columns:
            return [name, (_definition("Age"), age)]
        return [name, *(_custom(each) for each in kind.columns)]
    row = _built_in().get(kind.kind, dict([AGE]))
    if row.get("Name"):
        return [_written(title, text) for title, text in row.items()]
    return [name, *(_written(title, text) for title, text in row.items())]


def _definition(title: str, type_: str = "string", form: str = "", priority: int = 0, text: str = "") -> Object:
    return {"name": title, "type": type_, "format": form, "description": text or title, "priority": priority}


def _custom(column: Object) -> Column:
    form, priority, text = column.get("format", ""), column.get("priority", 0), column.get("description", "")
    definition = _definition(column["name"], column["type"], form, priority, text)
    if column["type"] == "date":
        return definition, lambda item: _since(_at(item, column["jsonPath"]))
    return definition, lambda item: _at(item, column["jsonPath"])


def _written(title: str, text: str) -> Column:
    source, _, options = text.partition("; ")
    type_ = options if options in ("integer", "boolean", "date") else "string"
    definition = _definition(title, type_, "name" if title == "Name" else "", int("wide" in options))
    if source == "age":
        return definition, age
    if source.startswith("="):
        return definition, FUNCTIONS[source[1:]]
    path, _, name = source.partition(" ")
    form = FILTERS[name]
    return definition, lambda item: form(_at(item, path))


def _at(item: Any, path: str) -> Any:
    """The value at a simple JSON path, None when there is none: `.status.conditions[?(@.type=="Ready")].status`."""
    for part in re.findall(r"[^.\[\]]+|\[[^]]*\]", path):
        if part.startswith("["):
            match = re.fullmatch(r"""\[\?\(@\.(\w+)\s*==\s*["'](.*)["']\)\]""", part)
            if match:
                item = next((each for each in item or () if each.get(match[1]) == match[2]), None)
            else:
                index = int(part[1:-1]) if part[1:-1].isdigit() else len(item or ())
                item = item[index] if isinstance(item, list) and index < len(item) else None
        else:
            item = item.get(part) if isinstance(item, dict) else None
    return item


def _since(text: str | None, until: str | None = None) -> str:
    """How long ago, or before `until`, as people read it: `45s`, `3m20s`, `5h`, `12d`."""
    if not text:
        return "<unknown>"
    end = datetime.fromisoformat(until) if until else datetime.now(UTC)
    seconds = int((end - datetime.fromisoformat(text)).total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    days, hours, minutes = seconds // 86400, seconds // 3600, seconds // 60
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y"


def age(item: Object) -> str:
    return _since(item["metadata"].get("creationTimestamp"))


def _pairs(labels: Object | None) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted((labels or {}).items())) or NONE


FILTERS: dict[str, Callable[[Any], Any]] = {
    "": lambda value: "" if value is None else value,
    "none": lambda value: value or NONE,
    "unset": lambda value: value or "<unset>",
    "false": lambda value: bool(value),
    "count": lambda value: len(value or ()),
    "number": lambda value: str(value or 0),
    "zero": lambda value: value or 0,
    "share": lambda value: "N/A" if value is None else str(value),
    "pairs": _pairs,
    "modes": lambda value: ",".join(MODES.get(each, each) for each in value or ()),
}


def _ready(pod: Object) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(pod: Object) -> str:
    """What kubectl calls the status of a pod: the word that says most."""
    status = pod.get("status") or {}
    told = status.get("reason") or status.get("phase", "")
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        told = "SchedulingGated"
    for each in reversed(status.get("containerStatuses") or ()):
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            told = waiting["reason"]
        elif ended is not None:
            told = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return str(told)


def _restarts(pod: Object) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return str(sum(each.get("restartCount", 0) for each in statuses))


def _node_status(node: Object) -> str:
    ready = _at(node, '.status.conditions[?(@.type=="Ready")].status')
    told = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return told + (",SchedulingDisabled" if node["spec"].get("unschedulable") else "")


def _roles(node: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix))) or NONE


def _ports(service: Object) -> str:
    return ",".join(f"{each['port']}/{each['protocol']}" for each in service["spec"].get("ports") or ()) or NONE


def _claim(volume: Object) -> str:
    claim = volume["spec"].get("claimRef")
    return f"{claim['namespace']}/{claim['name']}" if claim else ""


def _quota(quota: Object, *, limits: bool) -> str:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    chosen = sorted(name for name in hard if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in chosen)


def _subjects(kind: str) -> Callable[[Object], str]:
    def told(binding: Object) -> str:
        chosen = [each for each in binding.get("subjects") or () if each.get("kind") == kind]
        spaced = kind == "ServiceAccount"
        return ", ".join(f"{each.get('namespace')}/{each['name']}" if spaced else each["name"] for each in chosen)

    return told


def _last_seen(event: Object) -> str:
    return _since(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])


def _job_status(job: Object) -> str:
    holding = {each["type"] for each in (job.get("status") or {}).get("conditions") or () if each["status"] == "True"}
    going = {"Terminating"} if "deletionTimestamp" in job["metadata"] else set()
    words = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((word for word in words if word in holding | going), "Running")


def _completions(job: Object) -> str:
    done, side = (job.get("status") or {}).get("succeeded", 0), job["spec"].get("parallelism", 0)
    wanted = job["spec"].get("completions", f"1 of {side}" if side > 1 else 1)
    return f"{done}/{wanted}"


def _job_duration(job: Object) -> str:
    status = job.get("status") or {}
    return _since(status["startTime"], status.get("completionTime")) if status.get("startTime") else ""


def _of_containers(field: str) -> Callable[[Object], str]:
    return lambda item: ",".join(each[field] for each in item["spec"]["template"]["spec"].get("containers") or ())


FUNCTIONS: dict[str, Callable[[Object], Any]] = {
    "ready": _ready,
    "pod_status": _pod_status,
    "restarts": _restarts,
    "node_status": _node_status,
    "roles": _roles,
    "internal_ip": lambda node: _at(node, '.status.addresses[?(@.type=="InternalIP")].address') or NONE,
    "nothing": lambda item: NONE,
    "ports": _ports,
    "data_count": lambda item: len(item.get("data") or ()) + len(item.get("binaryData") or ()),
    "claim": _claim,
    "quota_requests": lambda quota: _quota(quota, limits=False),
    "quota_limits": lambda quota: _quota(quota, limits=True),
    "role": lambda binding: f"{binding['roleRef']['kind']}/{binding['roleRef']['name']}",
    "replicas": lambda item: f"{(item.get('status') or {}).get('readyReplicas', 0)}/{item['spec']['replicas']}",
    "containers": _of_containers("name"),
    "images": _of_containers("image"),
    "selector": lambda item: written_selector(item["spec"].get("selector") or {}),
    "job_status": _job_status,
    "completions": _completions,
    "job_duration": _job_duration,
    "users": _subjects("User"),
    "groups": _subjects("Group"),
    "accounts": _subjects("ServiceAccount"),
    "last_seen": _last_seen,
    "subject": lambda event: f"{event['involvedObject'].get('kind', '').lower()}/{event['involvedObject'].get('name')}",
}
