"""The actions that take from others: preempt inside a queue, reclaim between queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.scheduler import votes
from apps.localcluster.volcano.scheduler.model import Job, Node, Task
from apps.localcluster.volcano.scheduler.state import State, Statement


def _starving(state: State) -> dict[str, list[Job]]:
    """Jobs that were let in and lack pods of their minimum, by queue, in the order of queues and jobs."""
    found: dict[str, list[Job]] = defaultdict(list)
    for job in sorted((job for job in state.active() if job.starving), key=state.order):
        found[job.queue].append(job)
    return {label: found[label] for label in sorted(found, key=lambda q: state.shares[q].order())}


# --- preempt


def preempt(state: State) -> None:
    """Important jobs push less important ones of their queue away, then important pods those of their own job.

    A gang that only lacks some pods is promised what is free for the others, as with Volcano.
    """
    for jobs in _starving(state).values():
        wanting = [job for job in jobs if not job.topology]
        for job in wanting:
            _preempt_for(state, job)
        for job in wanting:
            _preempt_inside(state, job)


def _preempt_for(state: State, job: Job) -> None:
    statement, failed = Statement(state), set[str]()

    def victim(task: Task) -> bool:
        owner = state.owners.get(task)
        return owner is not None and owner is not job and owner.queue == job.queue

    for task in [task for task in job.tasks if task.waiting]:
        if not job.starving:
            break
        # What fails for one pod of a role fails for the next one too.
        if (not task.role or task.role not in failed) and not _push_in(state, statement, task, victim):
            failed.add(task.role)
    if not job.pipelined():
        statement.discard()


def _preempt_inside(state: State, job: Job) -> None:
    for task in [task for task in job.tasks if task.waiting]:
        if not _push_in(state, Statement(state), task, lambda other: state.owners.get(other) is job):
            break


def _push_in(state: State, statement: Statement, task: Task, victim: Callable[[Task], bool]) -> bool:
    """Promise a task a node, evicting from it as many as needed; False, with nothing changed, if there is none."""
    if task.polite:
        return False
    possible: list[Node] = []
    chosen: dict[str, list[Task]] = {}
    for node in state.open_to(task):
        candidates = [t for t in node.pods if t.preemptable and (t.best_effort or not task.best_effort) and victim(t)]
        victims = votes.preemptable(state, task, candidates) if candidates else []
        if not node.lacking_later(task.request, quantity.add(*(t.request for t in victims))):
            possible.append(node)
            chosen[node.label] = victims
    for node in state.ranked(task, possible):
        trial, share = Statement(state), state.share(state.owners[task])
        left = votes.in_order(state, chosen[node.label], task)
        while left and not (share.allows(task.request) and not node.lacking_later(task.request)):
            trial.evict(left.pop(0), "preempt")
        if share.allows(task.request) and not node.lacking_later(task.request):
            trial.place(task, node, later=True)
            statement.absorb(trial)
            return True
        trial.discard()
    return False


# --- reclaim


def reclaim(state: State) -> None:
    """Queues below what they deserve take back what others borrowed, as much as their jobs' minimums need."""
    proportion = state.settings.has("proportion")
    for label, jobs in _starving(state).items():
        if proportion and state.shares[label].overused():
            continue
        for job in jobs:
            statement = Statement(state)
            for task in [task for task in job.tasks if task.waiting]:
                if not job.starving:
                    break
                if not task.polite and votes.may_claim(state, job, task):
                    _claim(state, statement, job, task)
            if not job.pipelined():
                statement.discard()


def _claim(state: State, statement: Statement, job: Job, task: Task) -> None:
    for node in state.open_to(task):
        candidates = [other for other in node.pods if other.state == "Running" and other.preemptable]
        candidates = [other for other in candidates if _of_another_queue(state, job, other)]
        if not candidates:
            continue
        victims = votes.in_order(state, votes.reclaimable(state, task, candidates), task)
        if node.lacking_later(task.request, quantity.add(*(t.request for t in victims))):
            continue
        while node.lacking_later(task.request):
            statement.evict(victims.pop(0), "reclaim")
        statement.place(task, node, later=True)
        return


def _of_another_queue(state: State, job: Job, task: Task) -> bool:
    owner = state.owners.get(task)
    return owner is not None and owner.queue != job.queue and state.share(owner).reclaimable
