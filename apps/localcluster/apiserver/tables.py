"""Objects as rows and columns, the way `kubectl get` asks for them; what a column shows stands in `tables.yaml`."""

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
Column = tuple[Object, Callable[[Object], Any]]
"""Its definition, and the cell of an object."""

NONE = "<none>"
MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def partial(item: Object) -> Object:
    """The metadata of an object alone."""
    return {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


INCLUDED: dict[str, Callable[[Object], Object | None]] = {
    "None": lambda item: None,
    "Metadata": partial,
    "Object": lambda item: item,
}


def table(request: Request, items: Sequence[Object], metadata: Object, *, columns: bool = True) -> Object:
    """A Table of objects (with kind and apiVersion). Raises StatusError 422 for an unknown `includeObject`."""
    include = request.query.get("includeObject", "Metadata")
    if include not in INCLUDED:
        text = f'Unsupported value: "{include}": supported values: "Metadata", "Object", "None"'
        raise invalid(("meta.k8s.io", "TableOptions"), "", [Cause("FieldValueNotSupported", text, "includeObject")])
    shown = _columns(request.kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [definition for definition, _ in shown] if columns else None,
        "rows": [{"cells": [cell(item) for _, cell in shown], "object": INCLUDED[include](item)} for item in items],
    }


@cache
def _built_in() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_name("tables.yaml").read_text()
    found: dict[str, dict[str, str]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found


def _columns(kind: Kind) -> list[Column]:
    plain = {"Name": "metadata.name", "Age": "age"}
    if kind.custom and kind.columns:
        return [_written("Name", "metadata.name"), *map(_custom, kind.columns)]
    row = plain if kind.custom else _built_in().get(kind.kind, plain)
    row = row if "Name" in row else {"Name": "metadata.name"} | row
    return [_written(title, text) for title, text in row.items()]


def _definition(title: str, type_: str, form: str, priority: int, text: str) -> Object:
    return {"name": title, "type": type_, "format": form, "description": text or title, "priority": priority}


def _custom(column: Object) -> Column:
    """A column of a CustomResourceDefinition."""
    form, priority, text = column.get("format", ""), column.get("priority", 0), column.get("description", "")
    since = column["type"] == "date"
    return _definition(
        column["name"], column["type"], form, priority, text
    ), lambda item: _since(_at(item, column["jsonPath"])) if since else _at(item, column["jsonPath"])


def _written(title: str, text: str) -> Column:
    """A column of `tables.yaml`."""
    source, _, options = text.partition("; ")
    type_ = options if options in ("integer", "boolean", "date") else "string"
    definition = _definition(title, type_, "name" if title == "Name" else "", int("wide" in options), "")
    path, _, name = source.partition(" ")
    return definition, FUNCTIONS.get(source) or (lambda item: FILTERS[name](_at(item, path)))


def _at(item: Any, path: str) -> Any:
    """The value at a simple JSON path, None when there is none: `.status.conditions[?(@.type=="Ready")].status`."""
    for part in re.findall(r"[^.\[\]]+|\[[^]]*\]", path):
        if match := re.fullmatch(r"""\[\?\(@\.(\w+)\s*==\s*["'](.*)["']\)\]""", part):
            item = next((each for each in item or () if each.get(match[1]) == match[2]), None)
        elif part.startswith("["):
            item = dict(enumerate(item or ())).get(int(part[1:-1])) if part[1:-1].isdigit() else None
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
    for below, unit, number, rest in (
        (120, "s", seconds, ""),
        (600, "m", minutes, f"{seconds % 60}s"),
        (3 * 3600, "m", minutes, ""),
        (8 * 3600, "h", hours, f"{minutes % 60}m"),
        (48 * 3600, "h", hours, ""),
        (8 * 86400, "d", days, f"{hours % 24}h"),
        (730 * 86400, "d", days, ""),
    ):
        if seconds < below:
            return f"{number}{unit}" + (rest if rest[:-1] != "0" else "")
    return f"{days // 365}y"


def _pairs(labels: Object | None) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted((labels or {}).items())) or NONE


FILTERS: dict[str, Callable[[Any], Any]] = {
    "": lambda value: "" if value is None else value,
    "none": lambda value: value or NONE,
    "unset": lambda value: value or "<unset>",
    "false": bool,
    "count": lambda value: len(value or ()),
    "number": lambda value: str(value or 0),
    "zero": lambda value: value or 0,
    "share": lambda value: "N/A" if value is None else str(value),
    "pairs": _pairs,
    "modes": lambda value: ",".join(MODES.get(each, each) for each in value or ()),
    "selector": lambda value: written_selector(value or {}),
    "names": lambda value: ",".join(each["name"] for each in value or ()),
    "images": lambda value: ",".join(each["image"] for each in value or ()),
}


def _ready(pod: Object) -> str:
    ready = sum(bool(each.get("ready")) for each in _at(pod, "status.containerStatuses") or ())
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(pod: Object) -> str:
    """What kubectl calls the status of a pod: the word that says most."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    status = pod.get("status") or {}
    told = status.get("reason") or status.get("phase", "")
    if _at(status, 'conditions[?(@.type=="PodScheduled")].reason') == "SchedulingGated":
        told = "SchedulingGated"
    for each in reversed(status.get("containerStatuses") or ()):
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            told = waiting["reason"]
        elif ended is not None:
            told = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    return str(told)


def _node_status(node: Object) -> str:
    ready = _at(node, 'status.conditions[?(@.type=="Ready")].status')
    told = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return told + (",SchedulingDisabled" if node["spec"].get("unschedulable") else "")


def _roles(node: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix))) or NONE


def _ports(service: Object) -> str:
    return ",".join(f"{each['port']}/{each['protocol']}" for each in service["spec"].get("ports") or ()) or NONE


def _quota(quota: Object, *, limits: bool) -> str:
    hard, used = _at(quota, "status.hard") or {}, _at(quota, "status.used") or {}
    chosen = sorted(name for name in hard if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in chosen)


def _last_seen(event: Object) -> str:
    return _since(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])


def _job_status(job: Object) -> str:
    holding = {each["type"] for each in _at(job, "status.conditions") or () if each["status"] == "True"}
    going = {"Terminating"} if "deletionTimestamp" in job["metadata"] else set()
    words = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((word for word in words if word in holding | going), "Running")


def _completions(job: Object) -> str:
    done, side = _at(job, "status.succeeded") or 0, job["spec"].get("parallelism", 0)
    return f"{done}/{job['spec'].get('completions', f'1 of {side}' if side > 1 else 1)}"


def _job_duration(job: Object) -> str:
    start = _at(job, "status.startTime")
    return _since(start, _at(job, "status.completionTime")) if start else ""


FUNCTIONS: dict[str, Callable[[Object], Any]] = {
    "age": lambda item: _since(item["metadata"].get("creationTimestamp")),
    "nothing": lambda item: NONE,
    "ready": _ready,
    "pod_status": _pod_status,
    "restarts": lambda pod: str(
        sum(each.get("restartCount", 0) for each in _at(pod, "status.containerStatuses") or ())
    ),
    "node_status": _node_status,
    "roles": _roles,
    "ports": _ports,
    "data_count": lambda item: len(item.get("data") or ()) + len(item.get("binaryData") or ()),
    "claim": lambda volume: "{namespace}/{name}".format(**claim) if (claim := volume["spec"].get("claimRef")) else "",
    "quota_requests": lambda quota: _quota(quota, limits=False),
    "quota_limits": lambda quota: _quota(quota, limits=True),
    "role": lambda binding: "{kind}/{name}".format(**binding["roleRef"]),
    "replicas": lambda item: f"{_at(item, 'status.readyReplicas') or 0}/{item['spec']['replicas']}",
    "job_status": _job_status,
    "completions": _completions,
    "job_duration": _job_duration,
    "last_seen": _last_seen,
    "subject": lambda event: f"{event['involvedObject'].get('kind', '').lower()}/{event['involvedObject'].get('name')}",
}
