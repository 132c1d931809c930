"""Who may be evicted for whom: the plugins vote, tier by tier."""

from __future__ import annotations

from collections.abc import Callable

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.objects import namespace
from apps.localcluster.volcano.quantity import Resources
from apps.localcluster.volcano.scheduler.model import Job, Task
from apps.localcluster.volcano.scheduler.shares import Share
from apps.localcluster.volcano.scheduler.state import State

Vote = Callable[[State, Task, list[Task]], list[Task]]

_CRITICAL = ("system-cluster-critical", "system-node-critical")
_CLOSE = 0.000001


def preemptable(state: State, preemptor: Task, candidates: list[Task]) -> list[Task]:
    """Those of a node's tasks that a task of the same queue may push away."""
    return _decide(state, "enablePreemptable", _PREEMPTION, preemptor, candidates)


def reclaimable(state: State, claimant: Task, candidates: list[Task]) -> list[Task]:
    """Those of a node's tasks that a task of another queue may push away."""
    return _decide(state, "enableReclaimable", _RECLAIM, claimant, candidates)


def _decide(state: State, switch: str, votes: dict[str, Vote], task: Task, candidates: list[Task]) -> list[Task]:
    """The first tier whose plugins agree on somebody decides. One that names nobody hands on to the next tier."""
    for tier in state.settings.tiers:
        chosen: list[Task] | None = None
        for plugin in tier:
            if plugin.name not in votes or not plugin.on(switch):
                continue
            named = votes[plugin.name](state, task, candidates)
            chosen = named if chosen is None else [other for other in chosen if other in named]
            if not named:
                chosen = None
                break
        if chosen is not None:
            return chosen
    return []


def in_order(state: State, victims: list[Task], claimant: Task) -> list[Task]:
    """Victims, the first to go first: the last pod of the least important job of the nearest and best-off queue."""
    if len(victims) < 2:
        return list(victims)
    mine = state.share(state.owners[claimant])

    def place(task: Task) -> tuple[object, ...]:
        job = state.owners[task]
        share = state.share(job)
        return (share.kinship(mine), share.order(), state.order(job), task.order())

    return sorted(victims, key=place, reverse=True)


def _priority(state: State, preemptor: Task, candidates: list[Task]) -> list[Task]:
    mine = state.owners[preemptor]

    def lower(task: Task) -> bool:
        job = state.owners[task]
        return task.priority < preemptor.priority if job is mine else job.priority < mine.priority

    return [task for task in candidates if lower(task)]


def _gang(state: State, _preemptor: Task, candidates: list[Task]) -> list[Task]:
    """No gang loses more than what it has above its minimum."""
    spare: dict[Job, int] = {}
    chosen = []
    for task in candidates:
        job = state.owners[task]
        if spare.setdefault(job, job.ready_count() - job.minimum) > 0:
            spare[job] -= 1
            chosen.append(task)
    return chosen


def _conformance(_state: State, _preemptor: Task, candidates: list[Task]) -> list[Task]:
    return [
        task
        for task in candidates
        if namespace(task.pod) != "kube-system" and task.pod["spec"].get("priorityClassName") not in _CRITICAL
    ]


def _drf(state: State, preemptor: Task, candidates: list[Task]) -> list[Task]:
    """Jobs that would hold more of the fleet even without the task than the preemptor's with it."""
    mine = state.fraction(quantity.add(state.owners[preemptor].allocated(), preemptor.request))
    held: dict[Job, Resources] = {}
    chosen = []
    for task in candidates:
        job = state.owners[task]
        held[job] = quantity.subtract(held.get(job) or job.allocated(), task.request)
        if mine <= state.fraction(held[job]) + _CLOSE:
            chosen.append(task)
    return chosen


def _capacity(state: State, claimant: Task, candidates: list[Task]) -> list[Task]:
    """Queues give back what they hold above their deserved amounts, and never what they are guaranteed."""
    held: dict[Share, Resources] = {}
    chosen = []
    for task in in_order(state, candidates, claimant):
        share = state.share(state.owners[task])
        before = held.setdefault(share, share.allocated)
        after = quantity.subtract(before, task.request)
        related = any(v and claimant.request.get(k) for k, v in task.request.items() if k != "pods")
        if not related or quantity.exceeding(share.guarantee, after) or not _above_deserved(share, before, task):
            continue
        held[share] = after
        chosen.append(task)
    return chosen


def _above_deserved(share: Share, held: Resources, task: Task) -> bool:
    relevant = [key for key, value in task.request.items() if value and share.deserved.get(key)]
    return not relevant or any(held.get(key, 0) > share.deserved[key] for key in relevant)


def _proportion(state: State, _claimant: Task, candidates: list[Task]) -> list[Task]:
    held: dict[Share, Resources] = {}
    chosen = []
    for task in candidates:
        share = state.share(state.owners[task])
        before = held.setdefault(share, share.allocated)
        if quantity.exceeding(before, share.deserved):
            held[share] = quantity.subtract(before, task.request)
            chosen.append(task)
    return chosen


_PREEMPTION: dict[str, Vote] = {"priority": _priority, "gang": _gang, "conformance": _conformance, "drf": _drf}
_RECLAIM: dict[str, Vote] = {
    "gang": _gang,
    "conformance": _conformance,
    "capacity": _capacity,
    "proportion": _proportion,
}


def may_claim(state: State, job: Job, task: Task) -> bool:
    """Whether a queue may take from others: one resource at least stays within what the queue deserves."""
    share = state.share(job)
    if state.settings.has("proportion"):
        return share.allows(task.request)
    if not state.settings.has("capacity"):
        return True
    after = quantity.add(share.allocated, task.request)
    asked = {key: after[key] for key, value in task.request.items() if value}
    if not share.is_open or quantity.exceeding(asked, share.limit):
        return False
    return any(value <= share.deserved.get(key, 0) for key, value in asked.items())
