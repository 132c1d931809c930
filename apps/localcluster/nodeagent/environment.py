"""A container's environment: `$(VAR)` expansion, references, and what a pod may learn about itself (downward API)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.nodeagent import quantity

Object = dict[str, Any]
Ref = tuple[str, str]
"""("configmaps" or "secrets", name): something of the pod's namespace."""

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_KINDS = {
    "configMapKeyRef": "configmaps",
    "secretKeyRef": "secrets",
    "configMapRef": "configmaps",
    "secretRef": "secrets",
}
_WORDS = {"configmaps": ("configmap", "ConfigMap"), "secrets": ("secret", "Secret")}


class ConfigError(Exception):
    """The container cannot be made as its pod describes it; the text is what the kubelet would say."""


@dataclass(frozen=True)
class Facts:
    """What env and volumes are filled from.

    `found` holds the data of each configmap and secret that exists; `allocatable` is the node's, the value of a limit
    that the container does not set.
    """

    pod: Object
    ip: str
    host_ip: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    found: Mapping[Ref, Mapping[str, bytes]] = field(default_factory=dict)


def data_of(item: Object) -> dict[str, bytes]:
    """The content of a ConfigMap or Secret object as bytes."""
    data, binary = item.get("data") or {}, item.get("binaryData") or {}
    if item["kind"] == "Secret":
        data, binary = {}, data
    return {key: value.encode() for key, value in data.items()} | {
        key: base64.b64decode(value) for key, value in binary.items()
    }


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)` where NAME is known; `$$` stands for one dollar sign, unknown names stay as they are."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return values.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def references(container: Object) -> set[Ref]:
    """Configmaps and secrets that the container's env names."""
    sources = list(container.get("envFrom") or ())
    sources += [entry.get("valueFrom") or {} for entry in container.get("env") or ()]
    return {(_KINDS[key], source[key]["name"]) for source in sources for key in _KINDS if source.get(key)}


def environment(container: Object, facts: Facts) -> dict[str, str]:
    """The variables a pod gives its container. Raises ConfigError where a reference cannot be followed."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        values |= _all_of(source, facts)
    for entry in container.get("env") or ():
        if entry.get("valueFrom"):
            value = _value_from(entry["valueFrom"], container, facts)
            if value is not None:
                values[entry["name"]] = value
        else:
            values[entry["name"]] = expand(entry.get("value", ""), values)
    return values


def _lookup(ref: Ref, reference: Object, facts: Facts) -> Mapping[str, bytes] | None:
    if ref in facts.found:
        return facts.found[ref]
    if reference.get("optional"):
        return None
    raise ConfigError(f'{_WORDS[ref[0]][0]} "{ref[1]}" not found')


def _all_of(source: Object, facts: Facts) -> dict[str, str]:
    for key in ("configMapRef", "secretRef"):
        if source.get(key):
            content = _lookup((_KINDS[key], source[key]["name"]), source[key], facts) or {}
            prefix = source.get("prefix", "")
            return {prefix + name: value.decode(errors="replace") for name, value in content.items()}
    return {}


def _value_from(source: Object, container: Object, facts: Facts) -> str | None:
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], facts)
    if "resourceFieldRef" in source:
        return resource_value(source["resourceFieldRef"], container, facts)
    key = next((key for key in ("configMapKeyRef", "secretKeyRef") if source.get(key)), None)
    if key is None:
        raise ConfigError(f"unsupported source of an environment variable: {', '.join(source)}")
    reference = source[key]
    content = _lookup((_KINDS[key], reference["name"]), reference, facts)
    if content is not None and reference["key"] in content:
        return content[reference["key"]].decode(errors="replace")
    if content is None or reference.get("optional"):
        return None
    namespace = facts.pod["metadata"]["namespace"]
    raise ConfigError(
        f"couldn't find key {reference['key']} in {_WORDS[_KINDS[key]][1]} {namespace}/{reference['name']}"
    )


def field_value(path: str, facts: Facts) -> str:
    """A field of the pod as text, as the downward API names it. Raises ConfigError for an unknown one."""
    metadata, spec = facts.pod["metadata"], facts.pod["spec"]
    if found := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(pairs.items()))
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.ip,
        "status.podIPs": facts.ip,
    }
    if path not in simple:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(simple[path])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(reference: Object, container: Object, facts: Facts) -> str:
    """`limits.cpu`, `requests.memory` and so on, in units of the divisor; without a limit, what the node has."""
    name = reference.get("containerName")
    if name:
        containers = [*facts.pod["spec"]["containers"], *(facts.pod["spec"].get("initContainers") or ())]
        container = next((c for c in containers if c["name"] == name), {})
    kind, _, resource = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if kind == "limits":
        value = limits.get(resource, facts.allocatable.get(resource, "0"))
    else:
        value = requests.get(resource, limits.get(resource, "0"))
    try:
        return str(quantity.divided(value, str(reference.get("divisor", "0"))))
    except (ValueError, ArithmeticError) as error:
        raise ConfigError(f"cannot express {reference['resource']}: {error}") from error
