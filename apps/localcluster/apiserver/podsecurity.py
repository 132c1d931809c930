"""Pod Security: the levels that a namespace's labels ask for, checked on new pods.

The checks are a table (podsecurity.yaml). Not looked at: AppArmor, SELinux, sysctls, Windows, and hosts of probes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import pods
from apps.localcluster.apiserver.errors import Cause, invalid_value
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

CHECKS: list[Object] = yaml.load(Path(__file__).with_name("podsecurity.yaml").read_text(), Loader=yaml.CSafeLoader)
PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")


def label_faults(namespace: Object) -> list[Cause]:
    labels = namespace["metadata"].get("labels") or {}
    return [
        invalid_value(f"metadata.labels[{PREFIX}{mode}]", labels[PREFIX + mode], f"must be one of {', '.join(LEVELS)}")
        for mode in ("enforce", "audit", "warn")
        if labels.get(PREFIX + mode, "privileged") not in LEVELS
    ]


def violation(labels: dict[str, str], mode: str, pod: Object) -> str:
    """Which level a pod violates and how; empty when it does not. `mode` is enforce or warn."""
    level, version = labels.get(PREFIX + mode, ""), labels.get(f"{PREFIX}{mode}-version", "latest")
    told = ", ".join(f"{title} ({words})" if words else title for title, words in _faults(level, pod["spec"]))
    return f'violate PodSecurity "{level}:{version}": {told}' if told else ""


def new_level_warnings(store: Store, old: Object, new: Object) -> list[str]:
    """Pods that are there already and would not pass the new level of their namespace."""
    before, labels = (each["metadata"].get("labels") or {} for each in (old, new))
    level, name = labels.get(PREFIX + "enforce", ""), new["metadata"]["name"]
    if level == before.get(PREFIX + "enforce", ""):
        return []
    found = [(record.key[1], _faults(level, record.load()["spec"])) for record in store.select("pods", name)]
    told = [f"{pod}: {', '.join(title for title, _ in faults)}" for pod, faults in found if faults]
    head = f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{level}:latest"'
    return [head, *told] if told else []


def _faults(level: str, spec: Object) -> list[tuple[str, str]]:
    """What a pod does that a level does not allow: titles, and the words in brackets behind them."""
    tests = ((check["title"], TESTS[check["test"]](check, spec)) for check in CHECKS if level in check["levels"])
    return [(title, words) for title, words in tests if words is not None]


def _is_bad(check: Object, *owners: Object) -> bool:
    """Whether the value at the field is not allowed; of several owners the last that has one says it."""
    value: Any = None
    for owner in owners:
        found: Any = owner.get("securityContext")
        for name in check["field"].split("."):
            found = found.get(name) if isinstance(found, dict) else None
        value = value if found is None else found
    return value in check["bad"] if "bad" in check else value not in check["good"]


def _named(items: Iterable[Object], what: str = "container") -> str:
    names = ", ".join(f'"{each["name"]}"' for each in items)
    return f"{what}{'s' if ',' in names else ''} {names}" if names else ""


def _containers(check: Object, spec: Object) -> str | None:
    named = _named(each for each in pods.containers(spec) if _is_bad(check, each))
    return f"{named} must {check['must']}" if named else None


def _pod_then_containers(check: Object, spec: Object) -> str | None:
    return f"pod must {check['must']}" if _is_bad(check, spec) else _containers(check, spec)


def _pod_or_containers(check: Object, spec: Object) -> str | None:
    """The pod can speak for all its containers."""
    bad = [each for each in pods.containers(spec) if _is_bad(check, spec, each)]
    return f"pod or {_named(bad)} must {check['must']}" if bad else None


def _capabilities(check: Object, spec: Object) -> str | None:
    own = [(each, (each.get("securityContext") or {}).get("capabilities") or {}) for each in pods.containers(spec)]
    parts = []
    if (drop := check.get("drop")) and (
        keep := _named(each for each, its in own if drop not in (its.get("drop") or ()))
    ):
        parts.append(f'{keep} must set securityContext.capabilities.drop=["{drop}"]')
    added = [(each, [name for name in its.get("add") or () if name not in check["good"]]) for each, its in own]
    if named := _named(each for each, names in added if names):
        listed = ", ".join(f'"{name}"' for name in dict.fromkeys(name for _, names in added for name in sorted(names)))
        parts.append(f"{named} must not include {listed} in securityContext.capabilities.add")
    return "; ".join(parts) or None


def _host_namespaces(check: Object, spec: Object) -> str | None:
    del check
    return ", ".join(f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)) or None


def _host_ports(check: Object, spec: Object) -> str | None:
    del check
    used = [
        (each, port["hostPort"])
        for each in pods.containers(spec)
        for port in each.get("ports") or ()
        if port.get("hostPort")
    ]
    numbers = ", ".join(str(port) for _, port in used)
    return f"{_named(each for each, _ in used)} uses hostPort{'s' if len(used) > 1 else ''} {numbers}" if used else None


def _volumes(check: Object, spec: Object) -> str | None:
    found = [(each, type_) for each in spec.get("volumes") or () for type_ in each if type_ != "name"]
    found = [
        (each, type_)
        for each, type_ in found
        if (type_ in check["bad"] if "bad" in check else type_ not in check["good"])
    ]
    told = _named((each for each, _ in found), "volume")
    types = ", ".join(dict.fromkeys(f'"{type_}"' for _, type_ in found))
    return (
        f"{told} {check['words']}{'s' if len(found) > 1 else ''} {types}"
        if found and "words" in check
        else told or None
    )


TESTS = {
    "containers": _containers,
    "pod_then_containers": _pod_then_containers,
    "pod_or_containers": _pod_or_containers,
    "capabilities": _capabilities,
    "host_namespaces": _host_namespaces,
    "host_ports": _host_ports,
    "volumes": _volumes,
}
