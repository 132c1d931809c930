"""One scheduling session: who is let in, which gangs are placed whole, and what is said of those that wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.objects import name
from apps.localcluster.volcano.scheduler import nodes as placing
from apps.localcluster.volcano.scheduler.model import Job, Node, Snapshot, Task
from apps.localcluster.volcano.scheduler.report import Report, report
from apps.localcluster.volcano.scheduler.shares import Fleet, Share, allocated_status, shares, without_gated

Object = dict[str, Any]


@dataclass
class Decisions:
    """What a session wants done. `bindings`: pod and node name; `reports`: what is said of each PodGroup."""

    bindings: list[tuple[Object, str]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    allocated: dict[str, dict[str, str]] = field(default_factory=dict)


def run(snapshot: Snapshot) -> Decisions:
    """Decide for the whole cluster. Pure: equal snapshots give equal decisions."""
    session = Session(snapshot)
    session.enqueue()
    session.allocate()
    session.backfill()
    return session.decisions()


class Session:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes, self.jobs, self.queues = snapshot.build()
        self.fleet = Fleet.of(list(self.nodes.values()), self.jobs)
        self.shares: dict[str, Share] = shares(self.queues, self.jobs, self.fleet.total)
        self.usable = [node for _, node in sorted(self.nodes.items()) if placing.ready(node)]
        self.phases = {job: job.phase for job in self.jobs}
        self.notes: dict[Job, str] = {}
        self._barred: dict[str, dict[str, str]] = {}

    # --- enqueue: who may have pods

    def enqueue(self) -> None:
        """Let jobs in while the fleet (with some overcommitment) and their queue have room."""
        waiting: dict[str, list[Job]] = defaultdict(list)
        for job in self.jobs:
            if self.phases[job] == "Pending":
                waiting[job.queue].append(job)
        while open_queues := [label for label, jobs in waiting.items() if jobs]:
            label = min(open_queues, key=lambda q: (*self.shares[q].order(), q))
            job = min(waiting[label], key=self._order)
            waiting[label].remove(job)
            if job.asked is None or self._may_enter(job):
                asked = without_gated(job.asked or {}, job)
                self.fleet.let_in = quantity.add(self.fleet.let_in, asked)
                self.shares[label].let_in = quantity.add(self.shares[label].let_in, asked)
                self.phases[job] = "Inqueue"

    def _may_enter(self, job: Job) -> bool:
        share = self.shares[job.queue]
        if overused := self.fleet.refused(job):
            self.notes[job] = _words("resource in cluster is overused", "overused", overused)
        elif share.is_open and (short := share.refused(job)):
            self.notes[job] = _words("queue resource quota insufficient", "insufficient", short)
        return job not in self.notes and share.is_open

    def _order(self, job: Job) -> tuple[Any, ...]:
        """Important jobs first, then gangs that are not complete, then those that hold least, then by age and name."""
        total = self.fleet.total
        held = max((v / total[k] for k, v in job.allocated().items() if total.get(k)), default=0.0)
        return (-job.priority, job.ready(), held, job.group["metadata"].get("creationTimestamp", ""), job.label)

    # --- allocate: gangs whole or not at all

    def allocate(self) -> None:
        work: dict[str, list[Job]] = defaultdict(list)
        left: dict[Job, list[Task]] = {}
        for job in self.jobs:
            pending = [t for t in job.tasks if t.state == "Pending" and not t.gated and not t.best_effort and _ours(t)]
            if self.phases[job] != "Pending" and job.valid() and pending:
                left[job] = pending
                work[job.queue].append(job)
        while open_queues := [label for label, jobs in work.items() if jobs]:
            label = min(open_queues, key=lambda q: (*self.shares[q].order(), q))
            job = min(work[label], key=self._order)
            work[label].remove(job)
            left[job] = self._place_gang(job, left[job])
            if job.ready() and left[job]:
                work[label].append(job)

    def _place_gang(self, job: Job, pending: list[Task]) -> list[Task]:
        """Place tasks until the gang is complete, or take everything back; returns what is left to try."""
        placed: list[tuple[Task, Node]] = []
        while pending:
            task, *pending = pending
            if not self.shares[job.queue].allows(task.request):
                continue
            failed = {other.role for other in job.tasks if other.fault}
            if task.role and task.role in failed:
                task.fault = f"Task {name(task.pod)} with role spec {task.role} has already predicated failed, skip"
                continue
            node = self._find(task)
            if node is None:
                if job.worth_continuing(failed | {task.role}):
                    continue
                break
            self._assign(job, task, node)
            placed.append((task, node))
            if job.ready():
                break
        if job.ready():
            return pending
        if not job.pipelined():
            for task, node in reversed(placed):
                self._withdraw(job, task, node)
        return []

    def _find(self, task: Task) -> Node | None:
        """The best node for a task; None, with the reasons of all nodes in `task.fault`."""
        fault = placing.claim_fault(task, self.snapshot.claims)
        reasons: Counter[str] = Counter({fault: len(self.usable)} if fault else {})
        fitting: list[Node] = []
        for node in self.usable if not fault else []:
            lacking = node.lacking_later(task.request)
            if lacking:
                reasons.update(_short_of(lacking))
            elif barred := self._bars(task, node):
                reasons[barred] += 1
            else:
                fitting.append(node)
        if not fitting:
            parts = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
            task.fault = f"0/{len(self.usable)} nodes are unavailable: {parts or 'no nodes'}."
            return None
        free = [node for node in fitting if not node.lacking(task.request)]
        return placing.best(task, free or fitting, self.snapshot)

    def _bars(self, task: Task, node: Node) -> str:
        known = self._barred.setdefault(placing.shape(task), {})
        if node.label not in known:
            known[node.label] = placing.barred(task, node)
        return known[node.label]

    def _assign(self, job: Job, task: Task, node: Node) -> None:
        task.node = node.label
        if node.lacking(task.request):
            task.state = "Pipelined"
            node.pipelined = quantity.add(node.pipelined, task.request)
            return
        task.state = "Allocated"
        node.take(task)
        share = self.shares[job.queue]
        share.allocated = quantity.add(share.allocated, task.request)

    def _withdraw(self, job: Job, task: Task, node: Node) -> None:
        """Nothing is held for a gang that is not complete; it is only said where the task could have gone."""
        if task.state == "Allocated":
            node.give_back(task)
            share = self.shares[job.queue]
            share.allocated = quantity.subtract(share.allocated, task.request)
        else:
            node.pipelined = quantity.subtract(node.pipelined, task.request)
        task.state = "Pipelined"

    # --- backfill: pods that ask for nothing

    def backfill(self) -> None:
        for job in self.jobs:
            for task in job.tasks:
                wanted = task.state == "Pending" and task.best_effort and not task.gated and _ours(task)
                if wanted and self.phases[job] != "Pending" and job.valid():
                    node = self._find(task)
                    if node is not None:
                        self._assign(job, task, node)

    # --- what comes out

    def decisions(self) -> Decisions:
        out = Decisions()
        for job in self.jobs:
            if job.ready():
                for task in job.tasks:
                    if task.state == "Allocated":
                        task.state = "Binding"
                        out.bindings.append((task.pod, task.node))
            out.reports.append(report(job, self.phases[job], self.notes.get(job, "")))
        out.allocated = allocated_status(self.queues, self.shares)
        return out


def _ours(task: Task) -> bool:
    return bool(task.pod["spec"].get("schedulerName") == "volcano")


def _words(prefix: str, verb: str, resources: list[str]) -> str:
    return f"{prefix}: {', '.join(f'{verb} {resource}' for resource in resources)}"


def _short_of(resources: list[str]) -> list[str]:
    return ["node(s) pod number exceeded" if r == "pods" else f"Insufficient {r}" for r in resources]
