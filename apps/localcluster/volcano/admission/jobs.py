"""Admission of Jobs."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apps.localcluster.volcano import plugins, quantity
from apps.localcluster.volcano.admission import policies, templates
from apps.localcluster.volcano.objects import minimum, pod_name, replicas, tasks

Object = dict[str, Any]
Queues = Mapping[str, Object]

MAX_RETRY = 3
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_FROZEN = (
    "job updates may not change fields other than "
    "`minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
)


def defaults(job: Object) -> list[Object]:
    """The JSON patch with what a new Job does not say. Does not change `job`."""
    spec = job.get("spec") or {}
    patch: list[Object] = []
    for field, value in (("queue", "default"), ("schedulerName", "volcano"), ("maxRetry", MAX_RETRY)):
        if not spec.get(field):
            patch.append({"op": "add", "path": f"/spec/{field}", "value": value})
    given = spec.get("tasks") or []
    filled = [_filled(task, index) for index, task in enumerate(given)]
    if filled != given:
        patch.append({"op": "replace", "path": "/spec/tasks", "value": filled})
    if not spec.get("minAvailable"):
        patch.append({"op": "add", "path": "/spec/minAvailable", "value": sum(minimum(task) for task in filled)})
    if spec.get("networkTopology") and not spec["networkTopology"].get("mode"):
        patch.append({"op": "add", "path": "/spec/networkTopology/mode", "value": "hard"})
    if spec.get("plugins") is not None:
        patch.append({"op": "replace", "path": "/spec/plugins", "value": plugins.implied(spec["plugins"])})
    return patch


def _filled(task: Object, index: int) -> Object:
    task = copy.deepcopy(task)
    if not task.get("name"):
        task["name"] = f"default{index}"
    spec = (task.get("template") or {}).get("spec") or {}
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    if task.get("minAvailable") is None:
        partitions = task.get("partitionPolicy") or {}
        share = int(partitions.get("minPartitions") or 0) * int(partitions.get("partitionSize") or 0)
        task["minAvailable"] = share or replicas(task)
    if not task.get("maxRetry"):
        task["maxRetry"] = MAX_RETRY
    return task


def refuse_create(job: Object, queues: Queues) -> str:
    """Why a new Job is refused, all faults in one text; the empty text accepts."""
    spec = job["spec"]
    if not tasks(job):
        return "No task specified in job spec"
    if "mpi" in (spec.get("plugins") or {}) and plugins.mpi_master(job) is None:
        return "The specified mpi master task was not found"
    parts = [_topology(spec), *_task_faults(job), _qualified("job", job["metadata"]["name"])]
    if sum(map(replicas, tasks(job))) < int(spec.get("minAvailable") or 0):
        parts.append(" job 'minAvailable' should not be greater than total replicas in tasks;")
    parts.append(policies.refusal(spec.get("policies"), "spec.policies"))
    parts += [f" unable to find job plugin: {n};" for n in spec.get("plugins") or {} if n not in plugins.KNOWN]
    parts += [_volumes(spec.get("volumes") or []), _queue(spec.get("queue") or "", queues)]
    if not _acyclic(tasks(job)):
        parts.append(" job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);")
    return "".join(parts).strip()


def _topology(spec: Object) -> str:
    topology = spec.get("networkTopology") or {}
    if topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        return "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
    return ""


def _task_faults(job: Object) -> Iterator[str]:
    name, names = job["metadata"]["name"], set()
    for index, task in enumerate(tasks(job)):
        if task.get("minAvailable") is not None and minimum(task) > replicas(task):
            yield f" 'minAvailable' is greater than 'replicas' in task: {task['name']}, job: {name};"
        if task["name"] in names:
            yield f" duplicated task name {task['name']};"
            return
        names.add(task["name"])
        if not templates.DNS_LABEL.fullmatch(task["name"]):
            yield f" [{templates.DNS_RULE}];"
        yield policies.refusal(task.get("policies"), "spec.tasks.policies")
        # The index is the task's, not the replica's: with ten replicas or more a name may still come out too long.
        pod = _qualified("pod", pod_name(name, task["name"], index))
        yield f"{pod};" if pod else ""
        yield templates.refusal(task.get("template") or {}, index)


def _qualified(kind: str, name: str) -> str:
    rules = ["name part must be no more than 63 bytes"] if len(name) > 63 else []
    rules += [] if _QUALIFIED.fullmatch(name) else [_NAME_RULE]
    return f"create {kind} with name {name} validate failed [{' '.join(rules)}]" if rules else ""


def _volumes(volumes: list[Object]) -> str:
    paths: set[str] = set()
    for volume in volumes:
        path, claim, claim_name = volume.get("mountPath"), volume.get("volumeClaim"), volume.get("volumeClaimName")
        if not path:
            return " mountPath is required;"
        if path in paths:
            return f" duplicated mountPath: {path};"
        if claim is None and not claim_name:
            return " either VolumeClaim or VolumeClaimName must be specified;"
        if claim is not None and claim_name:
            return (
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                "If you want to create a new PVC, you do not need to specify VolumeClaimName"
            )
        paths.add(path)
    return ""


def _queue(name: str, queues: Queues) -> str:
    queue = queues.get(name)
    if queue is None:
        return f' unable to find job queue: queue.scheduling.volcano.sh "{name}" not found;'
    parts, state = [], (queue.get("status") or {}).get("state", "")
    if state != "Open":
        parts.append(f" can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;")
    children = sum(other["spec"].get("parent") == name for other in queues.values())
    if name == "root":
        parts.append(" can not submit job to root queue;")
    elif children:
        parts.append(f" can only submit job to leaf queue, queue `{name}` has {children} child queues;")
    return "".join(parts)


def _acyclic(items: list[Object]) -> bool:
    waits = {task["name"]: set((task.get("dependsOn") or {}).get("name") or []) for task in items}
    while free := [task for task, needed in waits.items() if not needed]:
        waits = {task: needed - set(free) for task, needed in waits.items() if needed}
    return not waits


def refuse_update(old: Object, new: Object) -> str:
    """Why a change of a Job's spec is refused: only replicas, minimums and the priority class may change."""
    for task in tasks(new):
        if minimum(task) > replicas(task):
            return f"'minAvailable' must be <= 'replicas' in task: {task['name']}"
    if int(new["spec"].get("minAvailable") or 0) > sum(map(replicas, tasks(new))):
        return "job 'minAvailable' must not be greater than total replicas"
    if fault := _topology(new["spec"]):
        return fault
    if len(tasks(old)) != len(tasks(new)):
        return "job updates may not add or remove tasks"
    return "" if _fixed(old["spec"]) == _fixed(new["spec"]) else _FROZEN


def _fixed(spec: Object) -> Any:
    """What of a spec may never change, in a form in which "not given" and "empty" are the same."""
    fixed = {key: value for key, value in spec.items() if key not in ("minAvailable", "priorityClassName", "tasks")}
    fixed["tasks"] = [
        {k: v for k, v in task.items() if k not in ("replicas", "minAvailable")} for task in tasks({"spec": spec})
    ]
    fixed["volumes"] = [
        {k: v for k, v in volume.items() if k != "volumeClaimName" or volume.get("volumeClaim") is None}
        for volume in spec.get("volumes") or []
    ]
    # A plugin without arguments is something, unlike an empty field.
    fixed["plugins"] = [[plugin, list(given or [])] for plugin, given in sorted((spec.get("plugins") or {}).items())]
    return _pruned(fixed)


def _pruned(value: Any, leaf: Callable[[Any], Any] = lambda given: given) -> Any:
    if isinstance(value, dict):
        # Amounts are compared as amounts: 1 and "1000m" of a cpu are the same.
        inner = {k: _pruned(v, _amount if k in ("requests", "limits") else leaf) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v not in (None, "", 0, False, [], {})}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return leaf(value)


def _amount(value: Any) -> Any:
    try:
        return quantity.parse(value)
    except ValueError:
        return value
