"""One scheduling session: who is let in, which gangs are placed whole, and what is said of those that wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano.scheduler import allocation, eviction
from apps.localcluster.volcano.scheduler.model import Snapshot
from apps.localcluster.volcano.scheduler.report import Report, report
from apps.localcluster.volcano.scheduler.settings import Settings
from apps.localcluster.volcano.scheduler.shares import allocated_status
from apps.localcluster.volcano.scheduler.state import State

Object = dict[str, Any]

_ACTIONS: dict[str, Callable[[State], None]] = {
    "enqueue": allocation.enqueue,
    "allocate": allocation.allocate,
    "backfill": allocation.backfill,
    "preempt": eviction.preempt,
    "reclaim": eviction.reclaim,
}


@dataclass(frozen=True)
class Eviction:
    """A pod that has to go, the PodGroup it belongs to, and why: "preempt" or "reclaim"."""

    pod: Object
    group: Object
    reason: str


@dataclass
class Decisions:
    """What a session wants done. `bindings`: pod and node name; `reports`: what is said of each PodGroup."""

    bindings: list[tuple[Object, str]] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    allocated: dict[str, dict[str, str]] = field(default_factory=dict)


def run(snapshot: Snapshot, settings: Settings) -> Decisions:
    """Decide for the whole cluster. Pure: equal snapshots give equal decisions."""
    state, out = State(snapshot, settings), Decisions()
    for action in settings.actions:
        _ACTIONS[action](state)
    for job in state.jobs:
        ready = job.ready()
        for task in job.tasks:
            if task.state == "Allocated" and ready:
                job.turn(task, "Binding")
                out.bindings.append((task.pod, task.node))
            if task.evicted:
                out.evictions.append(Eviction(task.pod, job.group, task.evicted))
        out.reports.append(report(job, state.phases[job], state.notes.get(job, "")))
    out.allocated = allocated_status(state.queues, state.jobs)
    return out
