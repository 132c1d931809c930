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


def keep(old: Object, new: Object) -> None:
    """An update that names no address means the one there is."""
    if new["spec"].get("type") != "ExternalName" and not new["spec"].get("clusterIP"):
        new["spec"] |= {name: old["spec"][name] for name in ("clusterIP", "clusterIPs") if name in old["spec"]}


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
