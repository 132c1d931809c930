"""Cluster addresses of Services: one each, from a range of their own.

Nobody listens there. Inside the small cluster a Service's name leads straight to its pods, as with a headless one.
"""

from __future__ import annotations

import ipaddress
import random
from typing import Any

from apps.localcluster.apiserver.errors import Cause, invalid_value
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

RANGE = ipaddress.ip_network("10.96.0.0/16")
FAMILY, BOTH = "IPv4", "RequireDualStack"
FIXED = "may not change once set"


def give(store: Store, service: Object) -> list[Cause]:
    """Give a new Service its address; what is wrong with one that it brings."""
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return []
    taken = {record.load()["spec"].get("clusterIP") for record in store.select("services")}
    wanted = spec.get("clusterIP")
    if wanted not in (None, "", "None"):
        if wanted in taken:
            return [_refused(wanted, "provided IP is already allocated")]
        if not _is_inside(wanted):
            return [_refused(wanted, f"the provided IP ({wanted}) is not in the valid range. Valid: {RANGE}")]
    elif wanted != "None":
        spec["clusterIP"] = _free(taken)
    spec["clusterIPs"] = [spec["clusterIP"]]
    return []


def _free(taken: set[str]) -> str:
    while (address := str(RANGE[random.randrange(1, RANGE.num_addresses - 1)])) in taken:  # noqa: S311
        pass
    return address


def complete(old: Object | None, new: Object) -> list[Cause]:
    """Address and families of a Service that does not name them: those that it has. What is wrong with its families."""
    spec, before = new["spec"], old["spec"] if old else {}
    if spec["type"] == "ExternalName":
        return []
    if not spec.get("clusterIP") and before.get("type") != "ExternalName":
        spec |= {name: before[name] for name in ("clusterIP", "clusterIPs") if name in before}
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    # Whoever names the endpoints of a headless Service may name addresses of both families.
    free = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy") or (BOTH if free else "SingleStack"))
    families = spec.get("ipFamilies") or [FAMILY]
    causes = [] if free else _family_faults(policy, families)
    if free and policy != "SingleStack" and len(families) == 1:
        families = [*families, "IPv6" if families == [FAMILY] else FAMILY]
    spec["ipFamilies"] = families
    return causes


def _family_faults(policy: str, families: list[str]) -> list[Cause]:
    """There are addresses of one family."""
    causes = []
    if policy == BOTH:
        text = "this cluster is not configured for dual-stack services"
        causes.append(invalid_value("spec.ipFamilyPolicy", policy, text))
    for index, each in enumerate(families):
        if each != FAMILY:
            causes.append(invalid_value(f"spec.ipFamilies[{index}]", each, "not configured on this cluster"))
    return causes


def changed(old: Object, new: Object) -> list[Cause]:
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    fixed = before and new["spec"]["type"] != "ExternalName" and before != after
    return [invalid_value("spec.clusterIPs[0]", [after], FIXED)] if fixed else []


def _is_inside(address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in RANGE
    except ValueError:
        return False


def _refused(address: str, why: str) -> Cause:
    return invalid_value("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")
