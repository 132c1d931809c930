"""ResourceQuota: what a namespace uses, and the refusal of what would be too much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from apps.localcluster.apiserver import pods, quantities
from apps.localcluster.apiserver.errors import Cause, invalid_value
from apps.localcluster.apiserver.store import Record, Store

Object = dict[str, Any]
Amounts = dict[str, Decimal]

QUOTAS, CLAIMS = "resourcequotas", "persistentvolumeclaims"
MOST_KNOWN = 50_000
COMPUTE = ("cpu", "memory", "ephemeral-storage")
PLAIN_COUNTS = ("configmaps", CLAIMS, "pods", "replicationcontrollers", QUOTAS, "secrets", "services")
OTHER_NAMES = ("requests.storage", "services.loadbalancers", "services.nodeports")
MUST_BE_NAMED = ("limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "cpu", "memory")


def usage(resource: str, item: Object) -> Amounts:
    """What one object takes, by every name that a quota may know it under."""
    amounts: Amounts = {f"count/{resource}": Decimal(1)}
    if resource in PLAIN_COUNTS:
        amounts[resource] = Decimal(1)
    if resource == CLAIMS:
        requests = (item["spec"].get("resources") or {}).get("requests") or {}
        amounts["requests.storage"] = quantities.value(requests.get("storage", "0"))
    if resource == "pods":
        if (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return {}
        requests, limits = pods.total(item["spec"], "requests"), pods.total(item["spec"], "limits")
        amounts |= {f"requests.{name}": amount for name, amount in requests.items()}
        amounts |= {name: amount for name, amount in requests.items() if name in COMPUTE}
        amounts |= {f"limits.{name}": amount for name, amount in limits.items() if name in COMPUTE}
    return amounts


def tracked(name: str) -> bool:
    """Whether a name in `hard` is counted: `requests.nvidia.com/gpu` is, `nvidia.com/gpu` and its limit are not."""
    if name in PLAIN_COUNTS or name in OTHER_NAMES or name.startswith("count/"):
        return True
    head, _, rest = name.partition(".")
    return name in COMPUTE or (head == "requests" and bool(rest)) or (head == "limits" and rest in COMPUTE)


@dataclass(frozen=True)
class Facts:
    """What of an object counts: its amounts, and by what scopes tell pods apart."""

    amounts: Amounts
    ends: bool = False
    best_effort: bool = False
    priority: str = ""


def facts(resource: str, item: Object) -> Facts:
    amounts = usage(resource, item)
    if resource != "pods":
        return Facts(amounts)
    spec = item["spec"]
    best_effort = pods.quality(spec) == pods.BEST_EFFORT
    return Facts(amounts, "activeDeadlineSeconds" in spec, best_effort, spec.get("priorityClassName", ""))


class Quotas:
    """Counts what is used. Facts are kept by version, so that a namespace of thousands of pods is counted quickly."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[int, Facts] = {}

    def used(self, quota: Object) -> dict[str, str]:
        """What is used of every name that a quota counts."""
        totals = dict.fromkeys((name for name in quota["spec"].get("hard") or () if tracked(name)), Decimal(0))
        for resource in _resources(totals, self.store):
            for record in self.store.select(resource, quota["metadata"]["namespace"]):
                found = self._facts(record)
                if resource == "pods" and not _in_scope(quota, found):
                    continue
                for name in totals.keys() & found.amounts.keys():
                    totals[name] += found.amounts[name]
        return {name: quantities.written(amount, quota["spec"]["hard"][name]) for name, amount in totals.items()}

    def _facts(self, record: Record) -> Facts:
        if record.version not in self._known:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            self._known[record.version] = facts(record.resource, record.load())
        return self._known[record.version]

    def fault(self, resource: str, namespace: str, item: Object) -> str:
        """How a new object would exceed a quota of its namespace; empty when it would not."""
        for record in self.store.select(QUOTAS, namespace) if namespace else ():
            quota, fresh = record.load(), facts(resource, item)
            if resource == "pods" and not _in_scope(quota, fresh):
                continue
            hard = quota["spec"].get("hard") or {}
            if resource == "pods" and (missing := list(_unnamed(hard, item))):
                return f"failed quota: {record.key[1]}: must specify {'; '.join(missing)}"
            asked = {name: fresh.amounts[name] for name in sorted(hard) if fresh.amounts.get(name)}
            now = self.used(quota) if asked else {}
            over = [name for name in asked if quantities.value(now[name]) + asked[name] > quantities.value(hard[name])]
            if over:
                wanted = {name: quantities.written(asked[name], hard[name]) for name in over}
                parts = (("requested", wanted), ("used", now), ("limited", hard))
                told = [f"{title}: " + ",".join(f"{name}={each[name]}" for name in over) for title, each in parts]
                return f"exceeded quota: {record.key[1]}, " + ", ".join(told)
        return ""


def _resources(names: Amounts, store: Store) -> set[str]:
    counted = {name.removeprefix("count/") for name in names}
    wanted = {resource for resource in store.resources() if resource in counted}
    return wanted | ({CLAIMS} if "requests.storage" in names else set()) | {"pods"}


def _in_scope(quota: Object, pod: Facts) -> bool:
    holds = {
        "BestEffort": pod.best_effort,
        "NotBestEffort": not pod.best_effort,
        "Terminating": pod.ends,
        "NotTerminating": not pod.ends,
    }
    if not all(holds.get(scope, True) for scope in quota["spec"].get("scopes") or ()):
        return False
    for each in (quota["spec"].get("scopeSelector") or {}).get("matchExpressions") or ():
        if each["scopeName"] != "PriorityClass":
            fits = holds.get(each["scopeName"], True)
        elif each["operator"] in ("In", "NotIn"):
            fits = (pod.priority in (each.get("values") or ())) == (each["operator"] == "In")
        else:
            fits = bool(pod.priority) == (each["operator"] == "Exists")
        if not fits:
            return False
    return True


def _unnamed(hard: Object, pod: Object) -> Iterator[str]:
    for name in sorted(set(hard) & set(MUST_BE_NAMED)):
        part, _, resource = name.rpartition(".")
        bare = [
            each["name"]
            for each in pods.containers(pod["spec"])
            if resource not in ((each.get("resources") or {}).get(part or "requests") or {})
        ]
        if bare:
            yield f"{name} for: {','.join(bare)}"


def validate(quota: Object) -> list[Cause]:
    """What is wrong with a quota itself."""
    causes = []
    for name, amount in (quota["spec"].get("hard") or {}).items():
        field = f"spec.hard[{name}]"
        if "/" not in name and not tracked(name):
            causes.append(invalid_value(field, name, "must be a standard resource type or fully qualified"))
            causes.append(invalid_value(field, name, "must be a standard resource for quota"))
        if quantities.value(amount) < 0:
            causes.append(invalid_value(field, amount, "must be greater than or equal to 0"))
    return causes
