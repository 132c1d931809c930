"""The actions that give out what is free: enqueue, allocate and backfill."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.objects import name
from apps.localcluster.volcano.scheduler.model import Job, Node, Task
from apps.localcluster.volcano.scheduler.shares import without_gated
from apps.localcluster.volcano.scheduler.state import State, Statement
from apps.localcluster.volcano.scheduler.topology import Domain


def enqueue(state: State) -> None:
    """Let jobs in while the fleet (with some overcommitment) and their queue have room: who may have pods."""
    waiting: dict[str, list[Job]] = defaultdict(list)
    for job in sorted((job for job in state.jobs if state.phases[job] == "Pending"), key=state.order, reverse=True):
        waiting[job.queue].append(job)
    while open_queues := [label for label, jobs in waiting.items() if jobs]:
        label = min(open_queues, key=lambda q: state.shares[q].order())
        job = waiting[label].pop()
        if job.asked is None or _may_enter(state, job):
            asked = without_gated(job.asked or {}, job)
            state.fleet.let_in = quantity.add(state.fleet.let_in, asked)
            state.share(job).admit(asked)
            state.phases[job] = "Inqueue"


def _may_enter(state: State, job: Job) -> bool:
    share = state.share(job)
    if state.settings.has("overcommit") and (overused := state.fleet.refused(job)):
        state.notes[job] = _words("resource in cluster is overused", "overused", overused)
    elif share.is_open and not share.children and (short := share.refused(job)):
        state.notes[job] = _words("queue resource quota insufficient", "insufficient", short)
    return job not in state.notes and share.is_open and not share.children


def allocate(state: State) -> None:
    """Gangs whole or not at all."""
    if "enqueue" not in state.settings.actions:
        state.phases = {job: "Inqueue" if phase == "Pending" else phase for job, phase in state.phases.items()}
    # Heaps: placing a job's tasks changes its own place in the order, and no other's.
    work: dict[str, list[tuple[tuple[Any, ...], Job]]] = defaultdict(list)
    left: dict[Job, list[Task]] = {}
    for job in state.active():
        pending = [task for task in job.tasks if task.waiting and not task.best_effort]
        if pending:
            left[job] = pending
            heappush(work[job.queue], (state.order(job), job))
    proportion = state.settings.has("proportion")
    while queues := [q for q, jobs in work.items() if jobs and not (proportion and state.shares[q].overused())]:
        label = min(queues, key=lambda q: state.shares[q].order())
        _, job = heappop(work[label])
        left[job] = _place_near(state, job, left[job])
        if job.ready() and left[job]:
            heappush(work[label], (state.order(job), job))


def _place_near(state: State, job: Job, pending: list[Task]) -> list[Task]:
    """Place a gang in the nearest part of the topology that takes it; returns what is left to try."""
    if state.topology is None or not job.topology:
        return _place(state, job, pending, state.usable, Statement(state))
    for domains in state.topology.choices(job):
        possible: list[tuple[tuple[float, int, str], Domain]] = []
        for domain in domains:
            for task in job.tasks:
                task.fault = ""
            trial = Statement(state)
            _place(state, job, pending, _usable(state, domain), trial)
            if len(trial):
                trial.discard()
                possible.append((state.topology.rank(job, domain), domain))
        if possible:
            best = min(possible, key=lambda choice: choice[0])[1]
            return _place(state, job, pending, _usable(state, best), Statement(state))
    return []


def _usable(state: State, domain: Domain) -> list[Node]:
    return [node for node in state.usable if node.label in domain.nodes]


def _place(state: State, job: Job, pending: list[Task], nodes: Iterable[Node], statement: Statement) -> list[Task]:
    """Place tasks until the gang is complete, or take everything back; returns what is left to try."""
    among, failed = list(nodes), {other.role for other in job.tasks if other.fault}
    left = deque(pending)
    while left:
        task = left.popleft()
        if not state.share(job).allows(task.request):
            continue
        if task.role and task.role in failed:
            task.fault = f"Task {name(task.pod)} with role spec {task.role} has already predicated failed, skip"
            continue
        node = state.best(task, among)
        if node is None:
            failed.add(task.role)
            if job.worth_continuing(failed):
                continue
            break
        statement.place(task, node)
        if job.ready():
            break
    if job.ready():
        return list(left)
    if not job.pipelined():
        statement.discard()
    return []


def backfill(state: State) -> None:
    """Pods that ask for nothing."""
    for job in state.active():
        for task in job.tasks:
            if task.waiting and task.best_effort:
                node = state.best(task, state.usable)
                if node is not None:
                    Statement(state).place(task, node)


def _words(prefix: str, verb: str, resources: list[str]) -> str:
    return f"{prefix}: {', '.join(f'{verb} {resource}' for resource in resources)}"
