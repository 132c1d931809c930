"""Validation of the built-in kinds: a table (validation.yaml), and what does not fit into one."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import quantities
from apps.localcluster.apiserver.errors import Cause, forbidden_value, invalid_value, not_supported, required
from apps.localcluster.apiserver.meta import LABEL, LABEL_RULE, key_faults

Object = dict[str, Any]

TABLE: dict[str, dict[str, Object]] = yaml.load(
    Path(__file__).with_name("validation.yaml").read_text(), Loader=yaml.CSafeLoader
)
STANDARD = ("cpu", "memory", "ephemeral-storage")
PROTOCOLS = ["SCTP", "TCP", "UDP"]
LARGEST_DATA = 1024 * 1024
HIGHEST_PRIORITY = 1_000_000_000
NOT_NEGATIVE = "must be greater than or equal to 0"
POD_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
MAY_CHANGE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
CLAIM_MAY_CHANGE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


# -- the table


def check(part: str, new: Object, prefix: str = "") -> list[Cause]:
    """What the table says of a kind, or of a part at the path `prefix`."""
    causes: list[Cause] = []
    for path, row in TABLE.get(part, {}).items():
        for field, value, beside in _values(new, path, prefix):
            if not beside.get(row.get("unless", "")):
                causes += _faults(row, field, value, beside)
    return causes


def check_kept(part: str, old: Object, new: Object) -> list[Cause]:
    """What the table says that an update may not change."""
    causes = []
    for path, row in TABLE.get(part, {}).items():
        before, after = ([value for _, value, _ in _values(each, path, "")] for each in (old, new))
        if before != after and "kept" in row:
            causes.append(forbidden_value(path, row["kept"]))
        elif before != after and "immutable" in row:
            causes.append(invalid_value(path, after[0] if after else None, "field is immutable"))
    return causes


def _values(item: Object, path: str, prefix: str) -> Iterator[tuple[str, Any, Object]]:
    """Field, value, and the object that it stands in, for every place that a path names."""
    head, _, rest = path.partition(".")
    name, is_list, _ = head.partition("[")
    value, field = item.get(name), prefix + name
    places = [(f"{field}[{index}]", each) for index, each in enumerate(value or ())] if is_list else [(field, value)]
    for place, each in places:
        if not rest:
            yield place, each, item
        elif isinstance(each, dict):
            yield from _values(each, rest, f"{place}.")


def _faults(row: Object, field: str, value: Any, beside: Object) -> Iterator[Cause]:
    if value in (None, "", [], {}):
        if "required" in row:
            yield required(field, row["required"])
        return
    if "values" in row and value not in row["values"]:
        yield not_supported(field, str(value), row["values"])
    if "label" in row and (len(value) > 63 or not LABEL.fullmatch(value)):
        yield invalid_value(field, value, LABEL_RULE)
    if "trimmed" in row and value != value.strip():
        yield invalid_value(field, value, "must not have leading or trailing whitespace")
    if "least" in row and value < row["least"]:
        yield invalid_value(field, value, f"must be greater than or equal to {row['least']}")
    if "between" in row and not row["between"][0] <= value <= row["between"][1]:
        yield invalid_value(field, value, "must be between {} and {}, inclusive".format(*row["between"]))
    if "absent" in row:
        yield forbidden_value(field, row["absent"])
    if "needs" in row and row["needs"] not in beside:
        yield invalid_value(field, value, f"may not be specified when `{row['needs']}` is not specified")
    if "alone" in row and len(beside) > 1:
        yield forbidden_value(field.rpartition(".")[0], row["alone"])
    if "cidr" in row and not _is_range(value):
        yield invalid_value(field, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


# -- pods


def pod(item: Object) -> list[Cause]:
    return pod_spec(item["spec"], "spec")


def pod_spec(spec: Object, path: str) -> list[Cause]:
    """What a pod, or a template of pods, says of them."""
    causes: list[Cause] = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            causes += check("Container", container, prefix=f"{place}.")
            causes += _mounts(f"{place}.volumeMounts", container, volumes)
            causes += _resources(f"{place}.resources", container.get("resources") or {})
            if container.get("name") in seen:
                text = f"Duplicate value: {json.dumps(container['name'])}"
                causes.append(Cause("FieldValueDuplicate", text, f"{place}.name"))
            seen.add(container.get("name", ""))
    causes += check("PodSpec", spec, prefix=f"{path}.")
    for index, each in enumerate(spec.get("tolerations") or ()):
        if each.get("operator") == "Exists" and each.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid_value(f"{path}.tolerations[{index}].operator", each["value"], text))
        causes += check("Toleration", each, prefix=f"{path}.tolerations[{index}].")
    return causes


def _mounts(path: str, container: Object, volumes: set[Any]) -> list[Cause]:
    return [
        Cause("FieldValueNotFound", f"Not found: {json.dumps(mount.get('name', ''))}", f"{path}[{index}].name")
        for index, mount in enumerate(container.get("volumeMounts") or ())
        if mount.get("name") not in volumes
    ]


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
        if name not in STANDARD and name not in limits:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif name in limits and quantities.value(amount) > quantities.value(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{path}.requests", amount, text))
        elif name in limits and name not in STANDARD and amount != limits[name]:
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
    """Hardly anything of a pod's spec may change; what has not changed is not judged again."""
    before, after = old["spec"], deepcopy(new["spec"])
    if before == after:
        return []
    causes = pod_spec(after, "spec")
    for field in ("containers", "initContainers"):
        if len(after.get(field) or ()) != len(before.get(field) or ()):
            return [*causes, forbidden_value(f"spec.{field}", "pod updates may not add or remove containers")]
    if fault := _deadline_update(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")):
        causes.append(fault)
        if "activeDeadlineSeconds" in after:
            return causes
    causes += _toleration_update(before.get("tolerations") or [], after.get("tolerations") or [])
    causes += _gate_update(before.get("schedulingGates") or [], after.get("schedulingGates") or [])
    for name in MAY_CHANGE:
        after.pop(name, None)
        after |= {name: before[name]} if name in before else {}
    for field in ("containers", "initContainers"):
        for mine, theirs in zip(after.get(field) or (), before.get(field) or (), strict=True):
            mine["image"] = theirs["image"]
    return causes if after == before else [*causes, forbidden_value("spec", POD_MAY_CHANGE)]


def _deadline_update(before: int | None, after: int | None) -> Cause | None:
    field = "spec.activeDeadlineSeconds"
    if after is None:
        text = "must not update from a positive integer to nil value"
        return None if before is None else invalid_value(field, after, text)
    if not 0 <= after < 2**31:
        return invalid_value(field, after, "must be between 0 and 2147483647, inclusive")
    if before is not None and before < after:
        return invalid_value(field, after, "must be less than or equal to previous value")
    return None


def _toleration_update(before: list[Object], after: list[Object]) -> list[Cause]:
    """Those that there are stay, but for their time."""
    kept = [each | {"tolerationSeconds": None} for each in after]
    if all(each | {"tolerationSeconds": None} in kept for each in before):
        return []
    return [forbidden_value("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _gate_update(before: list[Object], after: list[Object]) -> list[Cause]:
    known = [each.get("name") for each in before]
    text = "only deletion is allowed, but found new scheduling gate '{}'"
    return [
        forbidden_value(f"spec.schedulingGates[{index}].name", text.format(each.get("name")))
        for index, each in enumerate(after)
        if each.get("name") not in known
    ]


# -- other kinds


def event(item: Object) -> list[Cause]:
    """An event stands in the namespace of what it is about."""
    place = item["involvedObject"].get("namespace", "")
    if item["metadata"]["namespace"] in ((place,) if place else ("default", "kube-system")):
        return []
    return [invalid_value("involvedObject.namespace", place, "does not match event.namespace")]


def service(item: Object) -> list[Cause]:
    """Ports are there, have different names if there are several, and are different."""
    spec, causes = item["spec"], []
    ports = spec.get("ports") or ()
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    names: set[str] = set()
    for index, port in enumerate(ports):
        causes += _port(f"spec.ports[{index}]", port, names, alone=len(ports) == 1)
        names.add(port.get("name", ""))
    pairs = [(port["protocol"], port["port"]) for port in ports]
    for index, (protocol, number) in enumerate(pairs):
        if (protocol, number) in pairs[:index]:
            shown = {
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": None,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            }
            text = f"Duplicate value: {json.dumps(shown, separators=(',', ':'))}"
            causes.append(Cause("FieldValueDuplicate", text, f"spec.ports[{index}]"))
    return causes


def _port(field: str, port: Object, taken: set[str], *, alone: bool) -> Iterator[Cause]:
    name, target = port.get("name", ""), port.get("targetPort")
    if not name and not alone:
        yield required(f"{field}.name")
    elif name and (len(name) > 63 or not LABEL.fullmatch(name)):
        yield invalid_value(f"{field}.name", name, LABEL_RULE)
    elif name and name in taken:
        yield Cause("FieldValueDuplicate", f"Duplicate value: {json.dumps(name)}", f"{field}.name")
    text = "must be between 1 and 65535, inclusive"
    if not 1 <= port["port"] <= 65535:
        yield invalid_value(f"{field}.port", port["port"], text)
    if port["protocol"] not in PROTOCOLS:
        yield not_supported(f"{field}.protocol", port["protocol"], PROTOCOLS)
    if isinstance(target, int) and not 1 <= target <= 65535:
        yield invalid_value(f"{field}.targetPort", target, text)


def priority_class(item: Object) -> list[Cause]:
    if item["value"] <= HIGHEST_PRIORITY or item["metadata"]["name"].startswith("system-"):
        return []
    return [forbidden_value("value", f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")]


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
    if not old.get("immutable"):
        return []
    changed = [name for name in ("immutable", "data", "binaryData") if old.get(name) != new.get(name)]
    return [forbidden_value(name, "field is immutable when `immutable` is set") for name in changed]


def claim_update(old: Object, new: Object) -> list[Cause]:
    """Only the size of a claim may change."""
    before, after = deepcopy(old["spec"]), deepcopy(new["spec"])
    for spec in (before, after):
        (spec.get("resources") or {}).pop("requests", None)
        spec.pop("volumeAttributesClassName", None)
        spec.pop("volumeName", None)
    return [] if before == after else [forbidden_value("spec", CLAIM_MAY_CHANGE)]


def role(item: Object) -> list[Cause]:
    text = "namespaced rules cannot apply to non-resource URLs"
    urls = [rule.get("nonResourceURLs") for rule in item.get("rules") or ()]
    return [invalid_value(f"rules[{index}].nonResourceURLs", each, text) for index, each in enumerate(urls) if each]


def binding_update(old: Object, new: Object) -> list[Cause]:
    if old.get("roleRef") == new.get("roleRef"):
        return []
    reference = new.get("roleRef") or {}
    shown = {"APIGroup": reference.get("apiGroup"), "Kind": reference.get("kind"), "Name": reference.get("name")}
    return [invalid_value("roleRef", shown, "cannot change roleRef")]
