"""Validation of the built-in kinds whose mistakes people make: pods, config, secrets, claims, roles."""

from __future__ import annotations

import ipaddress
import json
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import quantities
from apps.localcluster.apiserver.errors import Cause, forbidden_value, invalid_value, not_supported, required
from apps.localcluster.apiserver.meta import LABEL, LABEL_RULE, key_faults

Object = dict[str, Any]

STANDARD = ("cpu", "memory", "ephemeral-storage")
OVERCOMMITTABLE = ("cpu", "memory", "ephemeral-storage")
LARGEST_DATA = 1024 * 1024
LARGEST_INT = 2**31 - 1
HIGHEST_PRIORITY = 1_000_000_000
NOT_NEGATIVE = "must be greater than or equal to 0"
POD_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
CLAIM_MAY_CHANGE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def pod(item: Object) -> list[Cause]:
    """A new pod."""
    return pod_spec(item["spec"], "spec")


def pod_spec(spec: Object, path: str) -> list[Cause]:
    """What a pod, or a template of pods, says of them."""
    causes: list[Cause] = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            causes += _container(place, container, volumes)
            if container.get("name") in seen:
                text = f"Duplicate value: {json.dumps(container['name'])}"
                causes.append(Cause("FieldValueDuplicate", text, f"{place}.name"))
            seen.add(container.get("name", ""))
    for name, values in (
        ("restartPolicy", ["Always", "OnFailure", "Never"]),
        ("dnsPolicy", ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ):
        if spec.get(name) not in values:
            causes.append(not_supported(f"{path}.{name}", str(spec.get(name)), values))
    seconds = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= seconds <= LARGEST_INT:
        text = f"must be between 1 and {LARGEST_INT}, inclusive"
        causes.append(invalid_value(f"{path}.activeDeadlineSeconds", seconds, text))
    return causes + _tolerations(spec, path)


def _container(path: str, container: Object, volumes: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    elif len(name) > 63 or not LABEL.fullmatch(name):
        causes.append(invalid_value(f"{path}.name", name, LABEL_RULE))
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    elif container["image"] != container["image"].strip():
        text = "must not have leading or trailing whitespace"
        causes.append(invalid_value(f"{path}.image", container["image"], text))
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            causes.append(required(f"{path}.env[{index}].name"))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            text = f"Not found: {json.dumps(mount.get('name', ''))}"
            causes.append(Cause("FieldValueNotFound", text, f"{path}.volumeMounts[{index}].name"))
        if not mount.get("mountPath"):
            causes.append(required(f"{path}.volumeMounts[{index}].mountPath"))
    return causes + _resources(f"{path}.resources", container.get("resources") or {})


def _resources(path: str, resources: Object) -> list[Cause]:
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            causes += _amount(f"{path}.{part}[{name}]", name, amount)
    if any(name.startswith("hugepages-") for name in (*limits, *requests)) and not {"cpu", "memory"} & {
        *limits,
        *requests,
    }:
        causes.append(forbidden_value(path, "HugePages require cpu or memory"))
    for name, amount in sorted(requests.items()):
        if name not in OVERCOMMITTABLE and name not in limits:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif name in limits and quantities.value(amount) > quantities.value(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{path}.requests", amount, text))
        elif name in limits and name not in OVERCOMMITTABLE and amount != limits[name]:
            causes.append(invalid_value(f"{path}.requests", amount, f"must be equal to {name} limit of {limits[name]}"))
    return causes


def _amount(field: str, name: str, amount: str) -> list[Cause]:
    causes = [Cause(fault.reason, fault.message, field) for fault in key_faults(field, name)]
    if "/" in name and causes:
        causes.append(invalid_value(field, name, "doesn't follow extended resource name standard"))
    elif "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
        causes.append(invalid_value(field, name, "must be a standard resource type or fully qualified"))
        causes.append(invalid_value(field, name, "must be a standard resource for containers"))
    if causes:
        return causes
    value = quantities.value(amount)
    if value < 0:
        causes.append(invalid_value(field, amount, NOT_NEGATIVE))
    if name not in STANDARD and value != value.to_integral_value():
        causes.append(invalid_value(field, amount, "must be an integer"))
    return causes


def pod_warnings(item: Object) -> list[str]:
    """What is accepted and yet hardly meant."""
    warnings = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(item["spec"].get(field) or ()):
            for part, amounts in (container.get("resources") or {}).items():
                for name in ("memory", "ephemeral-storage"):
                    amount = amounts.get(name) if isinstance(amounts, dict) else None
                    if amount is not None and quantities.value(amount) % 1:
                        path = f"spec.{field}[{index}].resources.{part}[{name}]"
                        warnings.append(f'{path}: fractional byte value "{amount}" is invalid, must be an integer')
    return warnings


def pod_update(old: Object, new: Object) -> list[Cause]:
    """Hardly anything of a pod's spec may change."""
    before, after = old["spec"], deepcopy(new["spec"])
    gates = [each.get("name") for each in before.get("schedulingGates") or ()]
    added = [
        forbidden_value(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{each.get('name')}'",
        )
        for index, each in enumerate(after.get("schedulingGates") or ())
        if each.get("name") not in gates
    ]
    if added:
        return added
    for name in ("schedulingGates", "activeDeadlineSeconds"):
        after.pop(name, None)
        if name in before:
            after[name] = before[name]
    for field in ("containers", "initContainers"):
        for mine, theirs in zip(after.get(field) or (), before.get(field) or (), strict=False):
            mine["image"] = theirs["image"]
    kept = before.get("tolerations") or []
    if all(each in (after.get("tolerations") or ()) for each in kept):
        after["tolerations"] = kept
    if after != before and (after | {"tolerations": kept}) != (before | {"tolerations": kept}):
        return [forbidden_value("spec", POD_MAY_CHANGE)]
    return []


def _tolerations(spec: Object, pod: str) -> list[Cause]:
    causes = []
    effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
    for index, each in enumerate(spec.get("tolerations") or ()):
        path = f"{pod}.tolerations[{index}]"
        if each.get("operator") == "Exists" and each.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid_value(f"{path}.operator", each["value"], text))
        if each.get("effect") and each["effect"] not in effects:
            causes.append(not_supported(f"{path}.effect", each["effect"], effects))
    return causes


def network_policy(item: Object) -> list[Cause]:
    """Types, and peers of its rules."""
    spec, causes = item["spec"], []
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for place, port in enumerate(rule.get("ports") or ()):
                if "endPort" in port and "port" not in port:
                    text = "may not be specified when `port` is not specified"
                    causes.append(invalid_value(f"{path}.ports[{place}].endPort", port["endPort"], text))
            for place, peer in enumerate(rule.get(peers) or ()):
                causes += _peer(f"{path}.{peers}[{place}]", peer)
    for index, type_ in enumerate(spec.get("policyTypes") or ()):
        if type_ not in ("Ingress", "Egress"):
            causes.append(not_supported(f"spec.policyTypes[{index}]", type_, ["Ingress", "Egress"]))
    return causes


def _peer(path: str, peer: Object) -> list[Cause]:
    causes = []
    if block := peer.get("ipBlock"):
        try:
            ipaddress.ip_network(block["cidr"], strict=False)
        except ValueError:
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid_value(f"{path}.ipBlock.cidr", block["cidr"], text))
        if len(peer) > 1:
            causes.append(forbidden_value(path, "may not specify both ipBlock and another peer"))
    return causes


def event(item: Object) -> list[Cause]:
    """An event stands in the namespace of what it is about."""
    place = item["involvedObject"].get("namespace", "")
    if item["metadata"]["namespace"] in ((place,) if place else ("default", "kube-system")):
        return []
    return [invalid_value("involvedObject.namespace", place, "does not match event.namespace")]


def priority_class(item: Object) -> list[Cause]:
    if item["value"] <= HIGHEST_PRIORITY or item["metadata"]["name"].startswith("system-"):
        return []
    return [forbidden_value("value", f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")]


def priority_update(old: Object, new: Object) -> list[Cause]:
    return [] if old["value"] == new["value"] else [forbidden_value("value", "may not be changed in an update.")]


def data(item: Object) -> list[Cause]:
    """A ConfigMap or Secret holds at most one MiB."""
    parts = (item.get("data") or {}) | (item.get("binaryData") or {})
    if sum(len(str(value)) for value in parts.values()) > LARGEST_DATA:
        return [Cause("FieldValueTooLong", f"Too long: may not be more than {LARGEST_DATA} bytes", "[]")]
    return []


def secret(item: Object) -> list[Cause]:
    name = "kubernetes.io/service-account.name"
    notes = item["metadata"].get("annotations") or {}
    if item.get("type") == "kubernetes.io/service-account-token" and not notes.get(name):
        return [required(f"metadata.annotations[{name}]"), *data(item)]
    return data(item)


def data_update(old: Object, new: Object) -> list[Cause]:
    causes = []
    if old.get("immutable"):
        text = "field is immutable when `immutable` is set"
        causes = [forbidden_value(name, text) for name in ("data", "binaryData") if old.get(name) != new.get(name)]
        if not new.get("immutable"):
            causes.append(forbidden_value("immutable", text))
    if old.get("type") != new.get("type"):
        causes.append(invalid_value("type", new.get("type"), "field is immutable"))
    return causes


def claim_update(old: Object, new: Object) -> list[Cause]:
    """Only the size of a claim may change, and only grow."""
    before, after = deepcopy(old["spec"]), deepcopy(new["spec"])
    for spec in (before, after):
        (spec.get("resources") or {}).pop("requests", None)
        spec.pop("volumeAttributesClassName", None)
        spec.pop("volumeName", None)
    return [] if before == after else [forbidden_value("spec", CLAIM_MAY_CHANGE)]


def role(item: Object) -> list[Cause]:
    return _rules(item, namespaced=True)


def cluster_role(item: Object) -> list[Cause]:
    return _rules(item, namespaced=False)


def _rules(item: Object, *, namespaced: bool) -> list[Cause]:
    causes = []
    for index, rule in enumerate(item.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        urls = rule.get("nonResourceURLs")
        if urls:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                shown = json.dumps(urls, separators=(",", ":"))
                causes.append(Cause("FieldValueInvalid", f"Invalid value: {shown}: {text}", f"{path}.nonResourceURLs"))
            continue
        for name, what in (("apiGroups", "apiGroup"), ("resources", "resource")):
            if not rule.get(name):
                text = f"resource rules must supply at least one {'api group' if what == 'apiGroup' else 'resource'}"
                causes.append(required(f"{path}.{name}", text))
    return causes


def binding_update(old: Object, new: Object) -> list[Cause]:
    if old.get("roleRef") == new.get("roleRef"):
        return []
    reference = new.get("roleRef") or {}
    shown = {"APIGroup": reference.get("apiGroup"), "Kind": reference.get("kind"), "Name": reference.get("name")}
    text = json.dumps(shown, separators=(",", ":"))
    return [Cause("FieldValueInvalid", f"Invalid value: {text}: cannot change roleRef", "roleRef")]
