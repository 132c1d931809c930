"""Disruption budgets as an eviction meets them: what they still allow, and taking from it."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Record, Store

Object = dict[str, Any]

BUDGETS = "poddisruptionbudgets.policy"
ALLOWED = "DisruptionAllowed"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
YOUNG_SECONDS = 10  # how long to wait for a budget that has not been looked at yet


def charge(store: Store, pod: Record, *, dry_run: bool) -> None:
    """Take one disruption from the budget of a pod that runs. Raises StatusError 429, 500."""
    if pod.deleting or pod.fields["status.phase"] in ("Succeeded", "Failed", "Pending"):
        return
    budgets = [each for each in store.select(BUDGETS, pod.key[0]) if _selects(each, pod)]
    if len(budgets) > 1:
        raise StatusError(500, "", TWO)
    for record in budgets:
        budget = record.load()
        status = budget["status"]
        if not _is_ready(pod) and _lets_unready_go(budget):
            return
        if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
            raise _refusal(record, "is still being processed by the server.", YOUNG_SECONDS)
        if not status["disruptionsAllowed"]:
            wanted, there = status["desiredHealthy"], status["currentHealthy"]
            told = "does not allow evicting pods currently"
            if there <= wanted:
                told = f"needs {wanted} healthy pods and has {there} currently"
            raise _refusal(record, told, 0)
        if not dry_run:
            status["disruptionsAllowed"] -= 1
            status.setdefault("disruptedPods", {})[pod.key[1]] = meta.now()
            tell_allowed(status)
            store.put(BUDGETS, record.key, budget, record.version)


def tell_allowed(status: Object) -> None:
    """Set the condition that says whether any pod may be disrupted."""
    conditions = status.get("conditions") or []
    before: Object = next((each for each in conditions if each["type"] == ALLOWED), {})
    enough = bool(status["disruptionsAllowed"])
    told = {"type": ALLOWED, "status": str(enough), "observedGeneration": status.get("observedGeneration", 0)}
    told |= {"reason": "SufficientPods" if enough else "InsufficientPods", "message": ""}
    same = before.get("status") == told["status"]
    told["lastTransitionTime"] = before["lastTransitionTime"] if same else meta.now()
    status["conditions"] = [*(each for each in conditions if each["type"] != ALLOWED), told]


def _selects(budget: Record, pod: Record) -> bool:
    selector = budget.load()["spec"].get("selector")
    return selector is not None and matches_labels(selector, pod.labels)


def _is_ready(pod: Record) -> bool:
    conditions = (pod.load().get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _lets_unready_go(budget: Object) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status: dict[str, int] = budget["status"]
    return 0 < status["desiredHealthy"] <= status["currentHealthy"]


def _refusal(budget: Record, why: str, seconds: int) -> StatusError:
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {budget.key[1]} {why}"}
    error = StatusError(429, "TooManyRequests", REFUSED, {"causes": [cause]})
    if seconds and error.details is not None:
        error.details["retryAfterSeconds"] = seconds
        error.headers.append(("Retry-After", str(seconds)))
    return error
