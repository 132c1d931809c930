"""Admission of Queues, PodGroups and HyperNodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apps.localcluster.volcano import quantity

Object = dict[str, Any]
Queues = Mapping[str, Object]

MAX_DEPTH = 5
_KINDS = ("capability", "deserved", "guarantee")
_HIERARCHY, _WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"


def defaults(queue: Object) -> list[Object]:
    """The JSON patch with what a new Queue does not say. Raises ValueError if an amount is no quantity.

    A Queue without `spec` gets a patch that cannot be applied, as with Volcano: the API server answers 500.
    """
    spec = queue.get("spec") or {}
    for kind in _KINDS:
        _amounts(queue, kind)
    patch: list[Object] = []
    marks = queue["metadata"].get("annotations") or {}
    path, weights = marks.get(_HIERARCHY), marks.get(_WEIGHTS)
    if path and weights and not path.startswith("root"):
        for key, value in ((_HIERARCHY, f"root/{path}"), (_WEIGHTS, f"1/{weights}")):
            patch.append({"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value})
    if spec.get("reclaimable") is None:
        patch.append({"op": "add", "path": "/spec/reclaimable", "value": True})
    if not spec.get("dequeueStrategy"):
        patch.append({"op": "add", "path": "/spec/dequeueStrategy", "value": "traverse"})
    if not spec.get("weight"):
        patch.append({"op": "add", "path": "/spec/weight", "value": 1})
    return patch


def _given(queue: Object, kind: str) -> Object:
    """The amounts of one kind as they are written."""
    part = (queue.get("spec") or {}).get(kind) or {}
    return dict((part.get("resource") or {}) if kind == "guarantee" else part)


def _amounts(queue: Object, kind: str) -> quantity.Resources:
    return quantity.parse_all(_given(queue, kind))


def refuse_create(queue: Object, queues: Queues) -> str:
    return _own_faults(queue) or _place(queue, queues) or _sums(queue, queues)


def refuse_update(old: Object, new: Object, queues: Queues) -> str:
    moved = (old["spec"].get("parent") or "") != (new["spec"].get("parent") or "")
    changed = moved or any(_amounts(old, kind) != _amounts(new, kind) for kind in _KINDS)
    return (
        _own_faults(new)
        or (_place(new, queues) if moved else "")
        or (_sums(new, queues) if changed and new["metadata"]["name"] != "root" else "")
    )


def refuse_delete(name: str, queues: Queues) -> str:
    if name in ("default", "root"):
        return f"`{name}` queue can not be deleted"
    children = sorted(_children(name, queues))
    if children:
        return f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children)}"
    return ""


def _children(name: str, queues: Queues) -> dict[str, Object]:
    return {key: queue for key, queue in queues.items() if queue["spec"].get("parent") == name}


def _own_faults(queue: Object) -> str:
    faults = [*_quantity_faults(queue), *_hierarchy_faults(queue["metadata"].get("annotations") or {})]
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""


def _quantity_faults(queue: Object) -> Iterator[str]:
    for kind in _KINDS:
        path = f"requestBody.spec.{kind}" + (".resource" if kind == "guarantee" else "")
        for name, value in _given(queue, kind).items():
            if quantity.parse(value) < 0:
                yield f'{path}.{name}: Invalid value: "{value}": must be greater than or equal to 0'
    deserved, capability = _given(queue, "deserved"), _given(queue, "capability")
    for name, value in _given(queue, "guarantee").items():
        path = f"requestBody.spec.deserved.{name}"
        if name not in deserved:
            yield f'{path}: Invalid value: "<nil>": deserved[{name}] must be >= guarantee[{name}]={value}'
        elif quantity.parse(deserved[name]) < quantity.parse(value):
            text = f"deserved[{name}]={deserved[name]} must be >= guarantee[{name}]={value}"
            yield f'{path}: Invalid value: "{deserved[name]}": {text}'
    for name, value in deserved.items():
        if name in capability and quantity.parse(value) > quantity.parse(capability[name]):
            text = f"deserved[{name}]={value} must be <= capability[{name}]={capability[name]}"
            yield f'requestBody.spec.deserved.{name}: Invalid value: "{value}": {text}'


def _hierarchy_faults(marks: Object) -> Iterator[str]:
    path, weights = marks.get(_HIERARCHY, ""), marks.get(_WEIGHTS, "")
    where = "requestBody.metadata.annotations"
    if (path or weights) and len(path.split("/")) != len(weights.split("/")):
        yield f'{where}: Invalid value: "{path}": {_HIERARCHY} must have the same length with {_WEIGHTS}'
    elif path or weights:
        for weight in weights.split("/"):
            if not re.fullmatch(r"[0-9.]+", weight) or float(weight) <= 0:
                yield f'{where}: Invalid value: "{weights}": {weight} in the {weights} must be larger than 0'


def _place(queue: Object, queues: Queues) -> str:
    """Whether a queue may hang where it says."""
    name, parent = queue["metadata"]["name"], queue["spec"].get("parent") or ""
    if parent in ("", "root"):
        return ""
    if parent == name:
        return f"queue {name} cannot use itself as parent"
    depth, above = 1, parent
    while above not in ("", "root"):
        depth += 1
        if depth > MAX_DEPTH:
            return f"queue {name} exceeds the maximum allowed depth of {MAX_DEPTH}"
        if above not in queues:
            missing = f'queue.scheduling.volcano.sh "{above}" not found'
            return f"failed to get parent queue {above} of queue {name}: {missing}"
        above = queues[above]["spec"].get("parent") or ""
    pods = quantity.parse(((queues[parent].get("status") or {}).get("allocated") or {}).get("pods", "0")) // 1000
    if pods and not _children(parent, queues):
        return f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
    return ""


def _sums(queue: Object, queues: Queues) -> str:
    """Limits against the queues above and below."""
    name, parent = queue["metadata"]["name"], queue["spec"].get("parent") or ""
    if parent not in ("", "root") and parent in queues:
        for resource, value in _amounts(queue, "capability").items():
            limit = _nearest_limit(parent, resource, queues)
            if limit is not None and value > limit:
                return (
                    f"queue {name} capability[{resource}]={_figure(resource, value)} exceeds its ancestor's "
                    f"capability={_figure(resource, limit)}"
                )
        children = {**_children(parent, queues), name: queue}
        if fault := _over(queues[parent], children, f"parent queue {parent} validation failed"):
            return fault
    return _over(queue, _children(name, queues), f"queue {name} validation failed")


def _nearest_limit(parent: str, resource: str, queues: Queues) -> int | None:
    while parent not in ("", "root") and parent in queues:
        if limit := _amounts(queues[parent], "capability").get(resource):
            return limit
        parent = queues[parent]["spec"].get("parent") or ""
    return None


def _over(parent: Object, children: dict[str, Object], prefix: str) -> str:
    for kind in ("guarantee", "deserved"):
        limit = _amounts(parent, kind)
        total = quantity.add(*(_amounts(child, kind) for child in children.values()))
        if quantity.exceeding(total, limit):
            beyond = f"exceeds parent's {kind} limit ({_listed(limit)})"
            return f"{prefix}: sum of children's {kind} ({_listed(total)}) {beyond}"
    return ""


def _figure(resource: str, value: int) -> str:
    # Volcano counts cpu and extended resources in thousandths and prints them so.
    return quantity.render(resource, value) if resource in ("cpu", "memory") else f"{value:.2f}"


def _listed(amounts: quantity.Resources) -> str:
    parts = [f"cpu {amounts.get('cpu', 0):.2f}", f"memory {amounts.get('memory', 0) / 1000:.2f}"]
    return ", ".join([*parts, *(f"{n} {v:.2f}" for n, v in sorted(amounts.items()) if n not in ("cpu", "memory"))])


def refuse_group(group: Object, queues: Queues) -> str:
    """Why a new PodGroup is refused."""
    name = group["spec"].get("queue") or ""
    if not name:
        return ""
    if name not in queues:
        return f'unable to find queue: queue.scheduling.volcano.sh "{name}" not found'
    state = (queues[name].get("status") or {}).get("state", "")
    if state != "Open":
        return f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{state}`. "
    return ""


def refuse_hypernode(node: Object) -> str:
    """Why a new or changed HyperNode is refused."""
    members = node["spec"].get("members") or []
    if not members:
        return "[].spec.members: Invalid value: null: member must have at least one member"
    for member in members:
        pattern = ((member.get("selector") or {}).get("regexMatch") or {}).get("pattern") or ""
        try:
            re.compile(pattern)
        except re.error as error:
            return (
                f'[].spec.members.selector.regexMatch.pattern: Invalid value: "{pattern}": '
                f"member regexMatch pattern is invalid: {error}"
            )
    return ""
