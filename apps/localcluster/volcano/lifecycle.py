"""The life of a job: which action is due, what it changes, and what follows from the pods there are.

Everything is derived from the objects. `status.version` tells the pods of one attempt from those of the next: an action
on the whole job raises it in the same write that counts the retry, so that an attempt is counted once whenever the
controller is stopped, and a pod of an older version is known to be left over.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apps.localcluster.volcano.admission.policies import events_of
from apps.localcluster.volcano.objects import (
    JOB_VERSION,
    OUT_OF_SYNC,
    TASK_SPEC,
    annotation,
    deleting,
    minimum,
    name,
    pod_name,
    pod_phase,
    replicas,
    tasks,
    uid,
)

Object = dict[str, Any]

ACTIVE = ("Pending", "Running")
FINISHED = ("Completed", "Failed", "Terminated")
ENDED_PODS = ("Succeeded", "Failed")
_LEAVING = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
_ARRIVED = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
_TARGETED = ("RestartTask", "RestartPod")
_COUNTERS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


@dataclass(frozen=True)
class Trigger:
    """An action that a policy asks for. `delay` is in seconds; `pod` and `task` say what happened to whom."""

    action: str
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    delay: float = 0


def phase_of(job: Object) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def version_of(job: Object) -> int:
    return int((job.get("status") or {}).get("version") or 0)


def retries_of(job: Object) -> int:
    return int((job.get("status") or {}).get("retryCount") or 0)


def is_current(job: Object, pod: Object) -> bool:
    """Whether a pod belongs to the running attempt, and was not itself singled out for a restart."""
    return int(annotation(pod, JOB_VERSION) or 0) >= version_of(job) and annotation(pod, OUT_OF_SYNC) is None


# --- what happened


def triggers(job: Object, pods: list[Object], missing: list[str], group_phase: str) -> Iterator[Trigger]:
    """The actions that the job's policies ask for, in the order in which they count.

    `missing` are names of pods that were counted in the status and are gone without the controller's doing.
    """
    if phase_of(job) not in ACTIVE:
        return
    for called in missing:
        yield from _matching(job, "PodEvicted", _task_of(job, called), pod=called)
    for pod in sorted(pods, key=name):
        if not is_current(job, pod):
            continue
        task = annotation(pod, TASK_SPEC) or ""
        if deleting(pod):
            yield from _matching(job, "PodEvicted", task, name(pod), uid(pod))
        elif pod_phase(pod) == "Failed":
            yield from _matching(job, "PodFailed", task, name(pod), uid(pod), exit_code=_exit_code(pod))
        elif pod_phase(pod) == "Pending":
            yield from (t for t in _matching(job, "PodPending", task, name(pod), uid(pod)) if t.delay)
    for task_spec in tasks(job):
        mine = [pod for pod in pods if annotation(pod, TASK_SPEC) == task_spec["name"] and is_current(job, pod)]
        if 0 < replicas(task_spec) <= sum(pod_phase(pod) == "Succeeded" for pod in mine):
            yield from _matching(job, "TaskCompleted", task_spec["name"])
        if _restarted_too_often(task_spec, mine):
            yield from _matching(job, "TaskFailed", task_spec["name"])
    if group_phase == "Unknown":
        yield from _matching(job, "Unknown", "")


def _matching(
    job: Object, event: str, task: str, pod: str = "", pod_uid: str = "", *, exit_code: int | None = None
) -> Iterator[Trigger]:
    """The first policy that answers an event: the task's own before the job's."""
    own = next((t.get("policies") for t in tasks(job) if t["name"] == task), None)
    for policy in [*(own or []), *(job["spec"].get("policies") or [])]:
        named, delay = events_of(policy), seconds(policy.get("timeout") or "0s")
        by_event = (event in named or "*" in named) and (event != "PodPending" or delay > 0)
        if by_event or (exit_code is not None and exit_code and policy.get("exitCode") == exit_code):
            yield Trigger(policy["action"], task, pod, pod_uid, delay)
            return


def seconds(duration: str) -> float:
    """A Go duration such as `1h30m5s`."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    total, number, unit = 0.0, "", ""
    for character in f"{duration} ":
        if unit and (character in "0123456789. "):
            total, number, unit = total + float(number or 0) * units.get(unit, 0), "", ""
        if character in "0123456789.":
            number += character
        else:
            unit += character.strip()
    return total


def _task_of(job: Object, pod: str) -> str:
    return next((t["name"] for t in tasks(job) if pod.startswith(f"{name(job)}-{t['name']}-")), "")


def _exit_code(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    terminated = (statuses[0].get("state") or {}).get("terminated") or {}
    return int(terminated.get("exitCode") or 0)


def _restarted_too_often(task: Object, pods: list[Object]) -> bool:
    limit = int(task.get("maxRetry") or 0)
    count = sum(
        int(status.get("restartCount") or 0)
        for pod in pods
        if pod_phase(pod) in ACTIVE
        for status in (pod.get("status") or {}).get("containerStatuses") or []
    )
    return 0 < limit <= count


def missing_pods(job: Object, pods: list[Object]) -> list[str]:
    """Names of pods that the status counts in a task but that are not there."""
    counted = (job.get("status") or {}).get("taskStatusCount") or {}
    there = {name(pod) for pod in pods}
    out: list[str] = []
    for task in tasks(job):
        expected = sum(((counted.get(task["name"]) or {}).get("phase") or {}).values())
        names = [pod_name(name(job), task["name"], index) for index in range(replicas(task))]
        absent = [called for called in names if called not in there]
        if len(names) - len(absent) < min(expected, len(names)):
            out += absent
    return out


# --- actions


def begun(job: Object, action: str, pods: list[Object]) -> Object | None:
    """The status with which an action begins; None where it changes nothing in the job's phase."""
    phase, status = phase_of(job), copy.deepcopy(job.get("status") or {})
    if phase in ACTIVE and action in (*_TARGETED, "RestartJob"):
        status["retryCount"] = retries_of(job) + 1
        following = "Restarting"
    elif phase in ACTIVE and action in _LEAVING:
        following = _LEAVING[action]
    elif phase in ("Aborting", "Aborted") and action == "ResumeJob":
        status["retryCount"] = retries_of(job) + 1
        following = "Restarting"
    else:
        return None
    if action not in _TARGETED:
        status["version"] = version_of(job) + 1
    status["taskStatusCount"] = {}
    for counter in _COUNTERS:
        status.pop(counter, None)
    alive = [pod for pod in pods if pod_phase(pod) not in ENDED_PODS or deleting(pod)]
    if alive:
        status["terminating"] = len(alive)
    return with_phase(status, following)


def targets(trigger: Trigger, job: Object, pods: list[Object]) -> list[Object]:
    """The pods that a RestartTask or RestartPod singles out."""
    if trigger.action == "RestartTask":
        return [pod for pod in pods if annotation(pod, TASK_SPEC) == trigger.task and is_current(job, pod)]
    if trigger.action == "RestartPod":
        return [pod for pod in pods if name(pod) == trigger.pod and is_current(job, pod)]
    return []


def with_phase(status: Object, phase: str) -> Object:
    """A status moved to a phase; the controller stamps the times."""
    return {**status, "state": {"phase": phase}}


# --- following


def doomed(job: Object, pods: list[Object]) -> list[Object]:
    """The pods that have to be deleted in the job's present phase, those already going included."""
    phase = phase_of(job)
    if phase in ACTIVE:
        wanted = {pod_name(name(job), task["name"], index) for task in tasks(job) for index in range(replicas(task))}
        # RestartPod leaves the others running under their old version: only the mark counts here.
        return [pod for pod in pods if name(pod) not in wanted or annotation(pod, OUT_OF_SYNC) is not None]
    if phase == "Restarting":
        last = retries_of(job) >= int(job["spec"].get("maxRetry") or 0)
        left_over = [pod for pod in pods if not is_current(job, pod)]
        # The ended pods of the last attempt stay, so that one can see why it failed.
        return [pod for pod in left_over if not (last and pod_phase(pod) in ENDED_PODS and not deleting(pod))]
    return [pod for pod in pods if pod_phase(pod) not in ENDED_PODS or deleting(pod)]


def settled(job: Object, pods: list[Object]) -> Object:
    """The status of a job that is being cleared (every phase but Pending and Running), given the pods still there."""
    status, phase = copy.deepcopy(job.get("status") or {}), phase_of(job)
    left = len(doomed(job, pods))
    for counter in (*_COUNTERS, "controlledResources"):
        status.pop(counter, None)
    status["taskStatusCount"] = {}
    if left:
        status["terminating"] = left
    if phase == "Restarting":
        if retries_of(job) >= int(job["spec"].get("maxRetry") or 0):
            return with_phase(status, "Failed")
        if sum(map(replicas, tasks(job))) - left >= int(job["spec"].get("minAvailable") or 0):
            return with_phase(status, "Pending")
    elif phase in _ARRIVED and not left:
        return with_phase(status, _ARRIVED[phase])
    return status


def counted(job: Object, pods: list[Object]) -> Object:
    """The status of an active job with these pods: counters, and the phase that follows from them."""
    status, totals = copy.deepcopy(job.get("status") or {}), Counter[str]()
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        if deleting(pod):
            totals["terminating"] += 1
            continue
        totals[pod_phase(pod).lower()] += 1
        by_task.setdefault(annotation(pod, TASK_SPEC) or "", Counter())[pod_phase(pod)] += 1
    for counter in _COUNTERS:
        status.pop(counter, None)
        if totals[counter]:
            status[counter] = totals[counter]
    status["taskStatusCount"] = {task: {"phase": dict(count)} for task, count in sorted(by_task.items())}
    status["minAvailable"] = int(job["spec"].get("minAvailable") or 0)
    following = _following(job, totals, by_task)
    return with_phase(status, following) if following != phase_of(job) or not status.get("state") else status


def _following(job: Object, totals: Counter[str], by_task: dict[str, Counter[str]]) -> str:
    spec, whole = job["spec"], sum(map(replicas, tasks(job)))
    least, enough = int(spec.get("minAvailable") or 0), spec.get("minSuccess")
    if phase_of(job) == "Pending":
        there = totals["running"] + totals["succeeded"] + totals["failed"]
        return "Running" if least <= there else "Pending"
    if whole == 0:
        return "Running"
    if enough is not None and totals["succeeded"] >= enough:
        return "Completed"
    if totals["succeeded"] + totals["failed"] == whole:
        short = any(
            by_task.get(task["name"], Counter())["Succeeded"] < minimum(task)
            for task in tasks(job)
            if task.get("minAvailable") is not None and task["name"] in by_task
        )
        if least >= sum(map(minimum, tasks(job))) and short:
            return "Failed"
        return "Completed" if enough is None and totals["succeeded"] >= least else "Failed"
    return "Pending" if totals["pending"] > whole - least else "Running"


def ready_to_start(job: Object, task: Object, pods: list[Object]) -> bool:
    """Whether the tasks that a task depends on run already."""
    wish = task.get("dependsOn") or {}
    ready = [_runs(job, needed, pods) for needed in wish.get("name") or []]
    return (any(ready) if wish.get("iteration") == "any" and len(ready) > 1 else all(ready)) if ready else True


def _runs(job: Object, task: str, pods: list[Object]) -> bool:
    running = sum(
        pod_phase(pod) == "Succeeded" or (pod_phase(pod) == "Running" and _all_ready(pod))
        for pod in pods
        if annotation(pod, TASK_SPEC) == task
    )
    return running >= next((minimum(t) for t in tasks(job) if t["name"] == task), 0)


def _all_ready(pod: Object) -> bool:
    return all(status.get("ready") for status in (pod.get("status") or {}).get("containerStatuses") or [])
