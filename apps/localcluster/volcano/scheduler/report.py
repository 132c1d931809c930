"""What a session says of a job: phase, conditions and events of its PodGroup, conditions of its pods."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano.objects import name
from apps.localcluster.volcano.scheduler.model import SCHEDULED, Job, Task

Object = dict[str, Any]

READY, NOT_READY = "pod group is ready", "pod group is not ready"
_COMPLETED = ("Failed", "Succeeded")


@dataclass
class Report:
    """`status`: the PodGroup's new status without times; `events`: (type, reason, message) on it;
    `pods`: pods that wait, with the message of their PodScheduled condition."""

    group: Object
    status: Object
    events: list[tuple[str, str, str]] = field(default_factory=list)
    pods: list[tuple[Object, str]] = field(default_factory=list)


def report(job: Job, phase: str, note: str) -> Report:
    """`phase` is the one after enqueue; `note` says why a waiting job was not let in."""
    words, ready, tasks = fit_error(job), job.ready_count() + job.best_effort_count() >= job.minimum, job.tasks
    conditions = {c["type"]: c for c in (job.group.get("status") or {}).get("conditions") or []}
    unschedulable = bool(tasks) and not ready
    if unschedulable:
        lacking = job.minimum - job.ready_count() - _schedulable(job)
        message = f"{lacking}/{len(tasks)} tasks in gang unschedulable: {words}"
        conditions["Unschedulable"] = _condition("Unschedulable", "NotEnoughResources", message)
    elif tasks:
        conditions["Scheduled"] = _condition("Scheduled", "tasks in gang are ready to be scheduled", "")
    following = _phase(job, phase, unschedulable)
    states = job.states()
    status: Object = {"phase": following}
    if conditions:
        status["conditions"] = list(conditions.values())
    status |= {key: states[state] for key, state in _COUNTED if states[state]}
    out = Report(job.group, status)
    if note:
        out.events.append(("Normal", "Unschedulable", note))
    if following in ("Unknown", "Pending", "Inqueue"):
        message = f"{states['Pending']}/{len(tasks)} tasks in gang unschedulable: {words}"
        out.events.append(("Warning", "Unschedulable", message))
    else:
        out.events.append(("Normal", "Scheduled", READY))
    out.pods = [(task.pod, _pod_message(task) or words) for task in tasks if task.state in _WAITING and not task.gated]
    return out


_COUNTED = (("running", "Running"), ("failed", "Failed"), ("succeeded", "Succeeded"))
_WAITING = ("Pending", "Pipelined", "Allocated")


def _condition(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason} | ({"message": message} if message else {})


def _schedulable(job: Job) -> int:
    """Pods that would have had a node if the whole gang had one."""
    return sum(task.state == "Pending" and task.tried[0] == "Allocated" for task in job.tasks)


def _phase(job: Job, phase: str, unschedulable: bool) -> str:
    states = job.states()
    if states["Running"] and unschedulable:
        return "Unknown"
    scheduled = sum(states[state] for state in SCHEDULED)
    going = sum(task.state == "Releasing" and bool(task.node) for task in job.tasks)
    if scheduled + going >= job.minimum:
        ended = sum(states[state] for state in _COMPLETED)
        return "Completed" if scheduled + going == ended else "Running"
    if phase == "Running" and not unschedulable and states["Binding"]:
        return "Running"  # a single pod is being replaced
    return phase if phase == "Inqueue" else "Pending"


def fit_error(job: Job) -> str:
    """Volcano's summary of a job: how many pods are in which state, and the first reason that was met."""
    ready = job.ready_count() + job.best_effort_count() >= job.minimum
    counts = {**job.states(), "minAvailable": job.minimum}
    text = f"{READY if ready else NOT_READY}, {_listed(counts)}"
    pending = sum(task.state == "Pending" for task in job.tasks)
    if pending:
        known = {"Schedulable": _schedulable(job), "Unschedulable": pending - _schedulable(job)}
        text += f"; Pending: {_listed({reason: count for reason, count in known.items() if count})}"
    for task in job.tasks:
        if task.fault:
            return f"{text}. Origin reason is {name(task.pod)}: {task.fault}"
    return text


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(sorted(f"{count} {key}" for key, count in Counter(counts).items()))


def _pod_message(task: Task) -> str:
    """What is said of a pod that waits: where it could go, or why nowhere."""
    state, node = task.tried if task.tried[0] else (task.state, task.node)
    if state == "Pending":
        return task.fault
    wait = "once resource is released and " if state == "Pipelined" else "once "
    return f"Pod {task.label} can possibly be assigned to {node}, {wait}minAvailable is satisfied"
