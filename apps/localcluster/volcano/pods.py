"""The pods and the PodGroup of a job."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from apps.localcluster.volcano import plugins, quantity
from apps.localcluster.volcano.objects import (
    GROUP_NAME,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    POD_QUEUE,
    PREEMPTABLE,
    QUEUE_NAME,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
    annotation,
    controller_of,
    group_name,
    meta,
    minimum,
    name,
    namespace,
    owned_by,
    pod_name,
    replicas,
    tasks,
    uid,
)

Object = dict[str, Any]

# Marks of the Job that go on to its pods.
_INHERITED = (PREEMPTABLE, "volcano.sh/cooldown-time", "volcano.sh/revocable-zone", "volcano.sh/jdb-min-available")


def build(job: Object, task: Object, index: int) -> Object:
    """Pod `index` of a task, plugins included. Raises ValueError where a plugin refuses the job."""
    template = copy.deepcopy(task.get("template") or {})
    old, spec, status = template.get("metadata") or {}, template["spec"], job.get("status") or {}
    queue = str(job["spec"].get("queue", ""))
    marks = {TASK_INDEX: str(index), TASK_SPEC: task["name"], JOB_NAME: name(job), QUEUE_NAME: queue}
    annotations = {
        **(old.get("annotations") or {}),
        **marks,
        GROUP_NAME: group_name(job),
        JOB_VERSION: str(status.get("version") or 0),
        JOB_RETRY_COUNT: str(status.get("retryCount") or 0),
        TEMPLATE_UID: f"{name(job)}-{task['name']}",
    }
    given = meta(job).get("annotations") or {}
    annotations |= {key: given[key] for key in _INHERITED if key in given}
    labels = {**(old.get("labels") or {}), **marks, JOB_NAMESPACE: namespace(job)}
    if PREEMPTABLE in (meta(job).get("labels") or {}):
        labels[PREEMPTABLE] = meta(job)["labels"][PREEMPTABLE]
    spec["schedulerName"] = spec.get("schedulerName") or job["spec"].get("schedulerName") or "volcano"
    if not spec.get("priorityClassName") and job["spec"].get("priorityClassName"):
        spec["priorityClassName"] = job["spec"]["priorityClassName"]
    _mount_claims(job, spec)
    metadata = {
        "name": pod_name(name(job), task["name"], index),
        "namespace": namespace(job),
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": owned_by(job),
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plugins.decorate(pod, job, task, index)
    return pod


def claim_name(job: Object, index: int) -> str:
    """The claim of the job's volume `index`: the one it names, or the one made for it."""
    volume = job["spec"]["volumes"][index]
    return str(volume.get("volumeClaimName") or f"{name(job)}-pvc-{index}")


def _mount_claims(job: Object, spec: Object) -> None:
    for index, volume in enumerate(job["spec"].get("volumes") or []):
        called = f"{name(job)}-volume-{index}"
        source = {"name": called, "persistentVolumeClaim": {"claimName": claim_name(job, index)}}
        spec["volumes"] = [*(spec.get("volumes") or []), source]
        for container in spec["containers"]:
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [*mounts, {"name": called, "mountPath": volume["mountPath"]}]


def quota_usage(spec: Object) -> quantity.Resources:
    """What a pod counts in quotas, extended resources under their plain name too."""
    requests, limits = quantity.pod_total(spec, "requests"), quantity.pod_total(spec, "limits")
    usage = {"pods": 1000, "count/pods": 1000, **requests}
    usage |= {f"requests.{key}": value for key, value in requests.items()}
    native = ("cpu", "memory", "ephemeral-storage")
    return usage | {f"limits.{key}": value for key, value in limits.items() if key in native}


def minimum_resources(job: Object, priorities: Mapping[str, int]) -> dict[str, str]:
    """`minResources` of the PodGroup: what the first `minAvailable` pods ask for, important tasks first.

    `priorities` are the values of the PriorityClasses by name.
    """

    def priority(task: Object) -> int:
        return priorities.get(((task.get("template") or {}).get("spec") or {}).get("priorityClassName") or "", 0)

    ordered = sorted(tasks(job), key=lambda task: -priority(task))
    left, whole = int(job["spec"].get("minAvailable") or 0), sum(map(minimum, ordered))
    counts = [0] * len(ordered)
    rounds = (
        ([replicas(t) for t in ordered],)
        if left < whole
        else ([minimum(t) for t in ordered], [replicas(t) for t in ordered])
    )
    for ceilings in rounds:
        for position, ceiling in enumerate(ceilings):
            taken = max(0, min(left, ceiling - counts[position]))
            counts[position] += taken
            left -= taken
    usages = (quota_usage((task.get("template") or {}).get("spec") or {}) for task in ordered)
    return quantity.render_all(quantity.add(*(quantity.times(u, n) for u, n in zip(usages, counts, strict=True) if n)))


def group_spec(job: Object, priorities: Mapping[str, int]) -> Object:
    """The spec of a job's PodGroup."""
    spec: Object = {
        "minTaskMember": {task["name"]: minimum(task) for task in tasks(job)},
        "queue": job["spec"].get("queue") or "default",
        "minResources": minimum_resources(job, priorities),
    }
    if job["spec"].get("minAvailable"):
        spec["minMember"] = int(job["spec"]["minAvailable"])
    if job["spec"].get("priorityClassName"):
        spec["priorityClassName"] = job["spec"]["priorityClassName"]
    if job["spec"].get("networkTopology"):
        spec["networkTopology"] = job["spec"]["networkTopology"]
    return spec


def group(job: Object, priorities: Mapping[str, int]) -> Object:
    """The PodGroup of a job, without a status: the scheduler writes that."""
    metadata = {"name": group_name(job), "namespace": namespace(job), "ownerReferences": owned_by(job)}
    for key in ("labels", "annotations"):
        if meta(job).get(key):
            metadata[key] = meta(job)[key]
    api = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": group_spec(job, priorities)}


def bare_group(pod: Object) -> Object:
    """The PodGroup of a pod that came without one; pods of one controller share it."""
    owner = controller_of(pod)
    spec: Object = {
        "minMember": 1,
        "queue": annotation(pod, POD_QUEUE) or "default",
        "minResources": quantity.render_all(quota_usage(pod["spec"])),
    }
    if pod["spec"].get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    references = [owner] if owner else owned_by({"apiVersion": "v1", "kind": "Pod", **pod})
    called = f"podgroup-{(owner or meta(pod))['uid']}"
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": called, "namespace": namespace(pod), "ownerReferences": references},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def is_bare(pod: Object) -> bool:
    """Whether a pod is Volcano's to place and belongs to no PodGroup yet."""
    return pod["spec"].get("schedulerName") == "volcano" and not annotation(pod, GROUP_NAME) and bool(uid(pod))
