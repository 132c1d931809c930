"""What the definitions of Volcano's kinds refuse: said here too, as a server may have older or looser definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Object = dict[str, Any]

EVENTS = (
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
    "TaskFailed",
)
_TASK_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_SELECTORS = ("exactMatch", "regexMatch", "labelMatch")
_STRATEGIES = ("traverse", "fifo")
LARGEST_WEIGHT = 65535


def refusal(item: Object) -> str:
    """Every fault of a Job, Queue or HyperNode in the words of an API server; the empty text accepts."""
    faults = list(_CHECKS[item["kind"]](item.get("spec") or {})) if item.get("kind") in _CHECKS else []
    if not faults:
        return ""
    group = item["apiVersion"].partition("/")[0]
    listed = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    return f'{item["kind"]}.{group} "{item["metadata"]["name"]}" is invalid: {listed}'


def _least(part: Object, path: str, least: int, *fields: str) -> Iterator[str]:
    for field in fields:
        value = part.get(field)
        if isinstance(value, int) and value < least:
            where = f"{path}.{field}"
            yield f"{where}: Invalid value: {value}: {where} in body should be greater than or equal to {least}"


def _one_of(value: Any, path: str, known: tuple[str, ...]) -> Iterator[str]:
    if value is not None and value not in known:
        listed = ", ".join(f'"{name}"' for name in known)
        yield f'{path}: Unsupported value: "{value}": supported values: {listed}'


def _policies(part: Object, path: str) -> Iterator[str]:
    for index, policy in enumerate(part.get("policies") or []):
        yield from _one_of(policy.get("event"), f"{path}.policies[{index}].event", EVENTS)
        for place, event in enumerate(policy.get("events") or []):
            yield from _one_of(event, f"{path}.policies[{index}].events[{place}]", EVENTS)


def _job(spec: Object) -> Iterator[str]:
    tasks = spec.get("tasks")
    if tasks == []:
        yield "spec.tasks: Invalid value: 0: spec.tasks in body should have at least 1 items"
    for index, task in enumerate(tasks or []):
        path = f"spec.tasks[{index}]"
        yield from _least(task, path, 0, "replicas", "minAvailable", "maxRetry")
        yield from _policies(task, path)
        if not re.search(_TASK_NAME, str(task.get("name", "x"))):
            where = f"{path}.name"
            yield f"{where}: Invalid value: \"{task['name']}\": {where} in body should match '{_TASK_NAME}'"
        pod = (task.get("template") or {}).get("spec")
        if pod is not None and pod.get("containers") is None:
            where = f"{path}.template.spec.containers"
            yield f'{where}: Invalid value: "null": {where} in body must be of type array: "null"'
    yield from _least(spec, "spec", 0, "minAvailable", "maxRetry", "ttlSecondsAfterFinished")
    yield from _least(spec, "spec", 1, "minSuccess")
    yield from _policies(spec, "spec")
    yield from _one_of((spec.get("networkTopology") or {}).get("mode"), "spec.networkTopology.mode", ("hard", "soft"))
    for index, volume in enumerate(spec.get("volumes") or []):
        if volume.get("mountPath") is None:
            yield f"spec.volumes[{index}].mountPath: Required value"


def _queue(spec: Object) -> Iterator[str]:
    yield from _least(spec, "spec", 1, "weight")
    yield from _least(spec, "spec", 0, "priority")
    if isinstance(spec.get("weight"), int) and spec["weight"] > LARGEST_WEIGHT:
        rule = f"spec.weight in body should be less than or equal to {LARGEST_WEIGHT}"
        yield f"spec.weight: Invalid value: {spec['weight']}: {rule}"
    yield from _one_of(spec.get("dequeueStrategy"), "spec.dequeueStrategy", _STRATEGIES)


def _hypernode(spec: Object) -> Iterator[str]:
    yield from _least(spec, "spec", 0, "tier")
    for index, member in enumerate(spec.get("members") or []):
        yield from _one_of(member.get("type"), f"spec.members[{index}].type", ("Node", "HyperNode"))
        selector = member.get("selector")
        given = sum(kind in selector for kind in _SELECTORS) if selector is not None else 1
        if given > 1:
            rule = "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"
            yield f"spec.members[{index}].selector: Invalid value: {rule}"
        elif not given:
            rule = "Either ExactMatch or RegexMatch or LabelMatch must be specified"
            yield f"spec.members[{index}].selector: Invalid value: {rule}"


_CHECKS: dict[str, Callable[[Object], Iterator[str]]] = {"Job": _job, "Queue": _queue, "HyperNode": _hypernode}
