"""Checks of a task's pod template: the rules of Kubernetes that Volcano applies before any pod is made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apps.localcluster.volcano import quantity

Object = dict[str, Any]

LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
RESTART_POLICIES = ("Always", "OnFailure", "Never")
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
DNS_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def refusal(template: Object, index: int) -> str:
    """Every fault of the template of task `index` in one text; the empty text accepts."""
    faults = list(_faults(template))
    return f"spec.task[{index}]." + "".join(f"{fault}. " for fault in faults) if faults else ""


def _faults(template: Object) -> Iterator[str]:
    for value in ((template.get("metadata") or {}).get("labels") or {}).values():
        if len(value) > 63 or not LABEL_VALUE.fullmatch(value):
            yield f'template.labels: Invalid value: "{value}": {_LABEL_RULE}'
    spec = template.get("spec") or {}
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or []):
            path = f"template.spec.{kind}[{position}]"
            yield from _name_faults(container, path, names)
            yield from _resource_faults(container.get("resources") or {}, path)
            for place, mount in enumerate(container.get("volumeMounts") or []):
                if mount.get("name") not in volumes:
                    yield f'{path}.volumeMounts[{place}].name: Not found: "{mount.get("name", "")}"'
    if not spec.get("containers"):
        yield "template.spec.containers: Required value"
    policy = spec.get("restartPolicy") or "Always"
    if policy not in RESTART_POLICIES:
        allowed = ", ".join(f'"{known}"' for known in RESTART_POLICIES)
        yield f'template.spec.restartPolicy: Unsupported value: "{policy}": supported values: {allowed}'


def _name_faults(container: Object, path: str, names: set[str]) -> Iterator[str]:
    name = container.get("name") or ""
    if not name:
        yield f"{path}.name: Required value"
    elif len(name) > 63 or not DNS_LABEL.fullmatch(name):
        yield f'{path}.name: Invalid value: "{name}": {DNS_RULE}'
    elif name in names:
        yield f'{path}.name: Duplicate value: "{name}"'
    names.add(name)
    if not container.get("image"):
        yield f"{path}.image: Required value"


def _resource_faults(resources: Object, path: str) -> Iterator[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            if quantity.parse(value) < 0:
                yield (f'{path}.resources.{kind}[{name}]: Invalid value: "{value}": must be greater than or equal to 0')
    for name, value in requests.items():
        overcommitable = "/" not in name and not name.startswith("hugepages-")
        if name not in limits:
            if not overcommitable:
                yield f"{path}.resources.limits: Required value: Limit must be set for non overcommitable resources"
        elif not overcommitable and quantity.parse(value) != quantity.parse(limits[name]):
            rule = f"must be equal to {name} limit of {limits[name]}"
            yield f'{path}.resources.requests: Invalid value: "{value}": {rule}'
        elif quantity.parse(value) > quantity.parse(limits[name]):
            yield (
                f'{path}.resources.requests: Invalid value: "{value}": '
                f"must be less than or equal to {name} limit of {limits[name]}"
            )
