"""Deployments, ReplicaSets, Jobs and disruption budgets: defaults, validation, and their scale as an object."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import pods
from apps.localcluster.apiserver.errors import (
    Cause,
    forbidden_value,
    invalid_value,
    not_implemented,
    not_supported,
    required,
)
from apps.localcluster.apiserver.meta import label_faults
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.validation import NOT_NEGATIVE, pod_spec

Object = dict[str, Any]

SCALABLE = ("deployments.apps", "replicasets.apps")
WITH_TEMPLATES = (*SCALABLE, "jobs.batch")
QUARTER = "25%"
JOB_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
PERCENT = re.compile(r"[0-9]+%")
JOB_FIXED = ("completions", "selector", "template", "completionMode", "managedBy")
JOB_NOT_OFFERED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")
IMMUTABLE = "field is immutable"


def deployment_defaults(item: Object) -> None:
    strategy = item["spec"]["strategy"]
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", QUARTER)
        rolling.setdefault("maxSurge", QUARTER)
    template_defaults(item)


def template_defaults(item: Object) -> None:
    spec = item["spec"]["template"].get("spec") or {}
    pods.set_image_policies(spec)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def job_defaults(item: Object) -> None:
    """As many completions as run side by side, where neither is said; the labels of its pods for a job without."""
    spec = item["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    template_defaults(item)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not item["metadata"].get("labels") and not label_faults({"labels": labels}):
        item["metadata"]["labels"] = dict(labels)


def select_own_pods(item: Object) -> None:
    """A new job selects its pods by its uid, unless it brings its own selector. Raises StatusError 501."""
    spec, metadata = item["spec"], item["metadata"]
    if spec.get("completionMode") == "Indexed" or any(name in spec for name in JOB_NOT_OFFERED):
        raise not_implemented("A Job with indexes, failure or success policy")
    if spec.get("manualSelector"):
        return
    labels = {JOB_UID: metadata["uid"], JOB_NAME: metadata["name"]}
    labels |= {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = (template.get("labels") or {}) | labels
    spec.setdefault("selector", {"matchLabels": {JOB_UID: metadata["uid"]}})


def deployment(item: Object) -> list[Cause]:
    spec = item["spec"]
    causes = [*replicated(item), *_strategy(spec["strategy"])]
    if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        text = "must be greater than minReadySeconds"
        causes.append(invalid_value("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], text))
    return causes + _counts(item.get("status") or {}, "updatedReplicas", "status.replicas")


def replica_set(item: Object) -> list[Cause]:
    return replicated(item) + _counts(item.get("status") or {}, "fullyLabeledReplicas", "replicas")


def _counts(status: Object, of_kind: str, whole: str) -> list[Cause]:
    """What is wrong with the counts of a status; `whole`: how messages call the number of all."""
    names = ("observedGeneration", "replicas", of_kind, "readyReplicas", "availableReplicas")
    number = {name: status.get(name, 0) for name in names}
    causes = [invalid_value(f"status.{name}", value, NOT_NEGATIVE) for name, value in number.items() if value < 0]
    text = f"cannot be greater than {whole}"
    more = [name for name in names[2:] if number[name] > number["replicas"]]
    causes += [invalid_value(f"status.{name}", number[name], text) for name in more]
    if number["availableReplicas"] > number["readyReplicas"]:
        available = number["availableReplicas"]
        causes.append(invalid_value("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return causes


def job(item: Object) -> list[Cause]:
    spec, template = item["spec"], item["spec"]["template"]
    causes = _template(template)
    policy = template["spec"].get("restartPolicy")
    if policy == "Always":
        causes.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    if "selector" not in spec:
        causes.append(required("spec.selector"))
    return causes + _fits(spec)


def job_update(old: Object, new: Object) -> list[Cause]:
    """A job that waits and has not begun may still be told where its pods go."""
    before, after = deepcopy(old["spec"]), deepcopy(new["spec"])
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        for spec in (before, after):
            for name in ("nodeSelector", "affinity", "tolerations", "schedulingGates", "containers"):
                spec["template"]["spec"].pop(name, None)
            spec["template"]["metadata"] = {}
    return _immutable(before, after, *JOB_FIXED)


def budget(item: Object) -> list[Cause]:
    spec, causes = item["spec"], []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        causes.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        causes += _share(f"spec.{name}", spec.get(name, 0), bounded=True)
    return causes


def _immutable(old: Object, new: Object, *names: str) -> list[Cause]:
    return [invalid_value(f"spec.{name}", new.get(name), IMMUTABLE) for name in names if old.get(name) != new.get(name)]


def replicated(item: Object) -> list[Cause]:
    """Selector and template of what keeps a number of pods."""
    spec, causes = item["spec"], []
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid_value("spec.selector", selector, "empty selector is invalid for deployment"))
    return causes + (_fits(spec) if selector != {} else []) + _template(spec["template"])


def _fits(spec: Object) -> list[Cause]:
    """The selector selects what the template makes; a selector that is missing selects nothing."""
    labels, selector = spec["template"]["metadata"].get("labels"), spec.get("selector")
    if selector is not None and matches_labels(selector, labels or {}):
        return []
    return [invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]


def _template(template: Object) -> list[Cause]:
    causes = [
        Cause(fault.reason, fault.message, fault.field.replace("metadata.", "spec.template."))
        for fault in label_faults(template["metadata"])
    ]
    return causes + pod_spec(template["spec"], "spec.template.spec")


def _strategy(strategy: Object) -> list[Cause]:
    path, rolling = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    if strategy["type"] == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_value(path, text)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [not_supported("spec.strategy", strategy["type"], ["Recreate", "RollingUpdate"])]
    assert rolling is not None
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = _share(f"{path}.maxUnavailable", unavailable, bounded=True) + _share(f"{path}.maxSurge", surge)
    if not causes and str(unavailable).rstrip("%").strip("0") == str(surge).rstrip("%").strip("0") == "":
        causes.append(invalid_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes


def _share(field: str, value: int | str, *, bounded: bool = False) -> list[Cause]:
    """A number that is not negative, or a percentage; `bounded`: of at most 100."""
    if isinstance(value, int):
        return [] if value >= 0 else [invalid_value(field, value, NOT_NEGATIVE)]
    if not PERCENT.fullmatch(value):
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')"
        )
        return [invalid_value(field, value, text)]
    return [invalid_value(field, value, "must not be greater than 100%")] if bounded and int(value[:-1]) > 100 else []


def scale_of(item: Object) -> Object:
    """The scale of a Deployment or ReplicaSet: an object of its own in autoscaling/v1."""
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas, found = item["spec"]["replicas"], (item.get("status") or {}).get("replicas", 0)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: item["metadata"][name] for name in names},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": found, "selector": written_selector(item["spec"]["selector"])},
    }


def written_selector(selector: Object) -> str:
    """A LabelSelector as the text that a query takes."""
    parts = [(name, f"{name}={value}") for name, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        name, values = each["key"], ",".join(sorted(each.get("values") or ()))
        told = {"Exists": name, "DoesNotExist": f"!{name}"}.get(
            each["operator"], f"{name} {each['operator'].lower()} ({values})"
        )
        parts.append((name, told))
    return ",".join(told for _, told in sorted(parts))
