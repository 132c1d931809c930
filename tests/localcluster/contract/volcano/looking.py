"""The state of a cluster in the form in which it was recorded."""

from __future__ import annotations

from collections import Counter
from typing import Any

from apps.localcluster.volcano.objects import deleting, name
from tests.localcluster.contract.volcano.cluster import Cluster, Object, clean, job_of, phase_of

GPU = "nvidia.com/gpu"
_JOB_COUNTS = ("minAvailable", "pending", "running", "succeeded", "failed", "terminating", "unknown", "retryCount")
_QUEUE_COUNTS = ("pending", "inqueue", "running", "unknown", "completed")
_FEW_NODES = 16


def state(cluster: Cluster) -> Object:
    pods = cluster.list("Pod")
    used = sorted(gpus_by_node(pods).values(), reverse=True)
    found: Object = {
        "jobs": {name(job): job_state(job) for job in cluster.list("Job")},
        "podgroups": {clean(name(group)): group_state(group) for group in cluster.list("PodGroup")},
        "pods": {job: dict(counts) for job, counts in pods_by_phase(pods).items()},
        "gpus_per_node_sorted": used if len(used) <= _FEW_NODES else f"{len(used)} nodes in use",
        "queues": {name(queue): queue_state(queue) for queue in cluster.strangers("Queue")},
    }
    return {part: value for part, value in found.items() if value}


def jobs_by_phase(cluster: Cluster) -> Object:
    return {"jobs_by_phase": dict(Counter(phase_of("Job", job) for job in cluster.list("Job")))}


def job_state(job: Object) -> Object:
    status = job.get("status") or {}
    words = {key: clean(text) for key in ("reason", "message") if (text := (status.get("state") or {}).get(key))}
    return {"phase": phase_of("Job", job), **words, **_present(status, _JOB_COUNTS)}


def group_state(group: Object) -> Object:
    spec, status = group["spec"], group.get("status") or {}
    parts = ("type", "status", "reason", "message")
    conditions = [{k: clean(str(c[k])) for k in parts if c.get(k)} for c in status.get("conditions") or []]
    return {
        "phase": status.get("phase"),
        "minMember": spec.get("minMember"),
        **_present(spec, ("minTaskMember",)),
        **({"conditions": conditions} if conditions else {}),
        **_present(status, ("running", "succeeded", "failed")),
    }


def queue_state(queue: Object) -> Object:
    status = queue.get("status") or {}
    allocated = (status.get("allocated") or {}).get(GPU)
    return {"state": status.get("state"), "allocated_gpu": allocated, **_present(status, _QUEUE_COUNTS)}


def _present(status: Object, keys: tuple[str, ...]) -> Object:
    return {key: status[key] for key in keys if status.get(key)}


def pods_by_phase(pods: list[Object]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for pod in pods:
        found.setdefault(job_of(pod), Counter())[_phase(pod)] += 1
    return found


def gpus_by_node(pods: list[Object]) -> Counter[str]:
    used: Counter[str] = Counter()
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and _phase(pod) in ("Running", "Pending", "Terminating"):
            amounts: list[Any] = [(c.get("resources") or {}).get("requests") or {} for c in pod["spec"]["containers"]]
            used[node] += sum(int(each.get(GPU, 0)) for each in amounts)
    return used


def _phase(pod: Object) -> str:
    return "Terminating" if deleting(pod) else (pod.get("status") or {}).get("phase", "")
