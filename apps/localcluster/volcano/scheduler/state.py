"""The world of one session: what there is, what was decided so far, and how a decision is taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from apps.localcluster.volcano.quantity import Resources
from apps.localcluster.volcano.scheduler import nodes as placing
from apps.localcluster.volcano.scheduler.model import Job, Node, Snapshot, Task
from apps.localcluster.volcano.scheduler.settings import Settings
from apps.localcluster.volcano.scheduler.shares import OVERCOMMIT, Fleet, Share, shares
from apps.localcluster.volcano.scheduler.topology import Topology

Object = dict[str, Any]


class State:
    """What a session knows. The actions change it through `Statement`."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.nodes, self.jobs, self.queues = snapshot.build()
        overcommit = settings.plugins.get("overcommit")
        factor = overcommit.number("overcommit-factor", OVERCOMMIT) if overcommit else 1
        self.fleet = Fleet.of(list(self.nodes.values()), self.jobs, max(1.0, factor))
        self.shares: dict[str, Share] = shares(settings, self.queues, self.jobs, self.fleet.total)
        self.owners = {task: job for job in self.jobs for task in job.tasks}
        self.usable = [node for _, node in sorted(self.nodes.items()) if placing.ready(node)]
        self.phases = {job: job.phase for job in self.jobs}
        self.notes: dict[Job, str] = {}
        plugin = settings.plugins.get("network-topology-aware")
        self.topology = Topology(snapshot.hypernodes, self.nodes, plugin) if plugin else None
        self._weights = placing.Weights.of(settings)
        self._barred: dict[str, dict[str, str]] = {}

    def share(self, job: Job) -> Share:
        return self.shares[job.queue]

    def order(self, job: Job) -> tuple[Any, ...]:
        """Important jobs first, then gangs that are not complete, then those that hold least, then by age and name."""
        key: list[Any] = [-job.priority] if self.settings.has("priority", "enableJobOrder") else []
        key += [job.ready()] if self.settings.has("gang", "enableJobOrder") else []
        key += [self.fraction(job.allocated())] if self.settings.has("drf", "enableJobOrder") else []
        return (*key, job.group["metadata"].get("creationTimestamp", ""), job.label)

    def fraction(self, amounts: Resources) -> float:
        """The largest part of the fleet that these amounts are, over all resources."""
        total = self.fleet.total
        return max((value / total[key] for key, value in amounts.items() if total.get(key)), default=0.0)

    def active(self) -> list[Job]:
        """Jobs that were let in and have the pods they need."""
        return [job for job in self.jobs if self.phases[job] != "Pending" and job.valid()]

    # --- nodes for a task

    def fitting(self, task: Task, nodes: Iterable[Node]) -> list[Node]:
        """Nodes that have room for a task, now or soon; if there are none, `task.fault` says why not."""
        among = list(nodes)
        fault = placing.claim_fault(task, self.snapshot.claims)
        reasons: Counter[str] = Counter({fault: len(among)} if fault else {})
        found: list[Node] = []
        for node in among if not fault else []:
            lacking = node.lacking_later(task.request)
            if lacking:
                reasons.update(_short_of(lacking))
            elif barred := self.bars(task, node):
                reasons[barred] += 1
            else:
                found.append(node)
        if not found:
            parts = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
            task.fault = f"0/{len(among)} nodes are unavailable: {parts or 'no nodes'}."
        return found

    def open_to(self, task: Task) -> list[Node]:
        """Nodes that a task might use if there were room."""
        if placing.claim_fault(task, self.snapshot.claims):
            return []
        return [node for node in self.usable if not self.bars(task, node)]

    def ranked(self, task: Task, nodes: list[Node]) -> list[Node]:
        """Nodes, the best one first; the first of equals by name."""
        if len(nodes) < 2:
            return nodes
        points = placing.scores(task, nodes, self.snapshot, self._weights)
        if self.topology is not None:
            near = self.topology.scores(self.owners[task], task, nodes)
            points = {label: value + near[label] for label, value in points.items()}
        return sorted(nodes, key=lambda node: -points[node.label])

    def best(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The node for a task: one that is free now if there is one; None, with the reason in `task.fault`."""
        fitting = self.fitting(task, nodes)
        free = [node for node in fitting if not node.lacking(task.request)]
        return next(iter(self.ranked(task, free or fitting)), None)

    def bars(self, task: Task, node: Node) -> str:
        known = self._barred.setdefault(placing.shape(task), {})
        if node.label not in known:
            known[node.label] = placing.barred(task, node)
        return known[node.label]

    def shift(self, node: Node, request: Resources) -> None:
        if self.topology is not None:
            self.topology.shift(node, request)


class Statement:
    """Steps that belong together: kept as a whole or taken back, the last one first."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._undo: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._undo)

    def place(self, task: Task, node: Node, *, later: bool = False) -> None:
        """Give a task its node: what is free there now, or (`later`, or if nothing is) what will be."""
        job = self.state.owners[task]
        task.node, share = node.label, self.state.share(job)
        job.turn(task, "Pipelined" if later or node.lacking(task.request) else "Allocated")
        if task.state == "Allocated":
            node.take(task)
            self.state.shift(node, task.request)
        else:
            node.promise(task)
        share.hold(task.request)
        self._undo.append(lambda: self._withdraw(task, node, share))

    def _withdraw(self, task: Task, node: Node, share: Share) -> None:
        if task.state == "Allocated":
            node.give_back(task)
            self.state.shift(node, {key: -value for key, value in task.request.items()})
        else:
            node.take_back(task)
        share.release(task.request)
        task.tried, task.node = (task.state, task.node), ""
        self.state.owners[task].turn(task, "Pending")

    def evict(self, task: Task, reason: str) -> None:
        job, node, before = self.state.owners[task], self.state.nodes[task.node], task.state
        share, task.evicted = self.state.share(job), reason
        job.turn(task, "Releasing")
        node.let_go(task)
        share.release(task.request)
        self._undo.append(lambda: self._spare(task, node, share, before))

    def _spare(self, task: Task, node: Node, share: Share, before: str) -> None:
        task.evicted = ""
        self.state.owners[task].turn(task, before)
        node.keep(task)
        share.hold(task.request)

    def absorb(self, part: Statement) -> None:
        """Make the steps of another statement a part of this one."""
        self._undo += part._undo
        part._undo = []

    def discard(self) -> None:
        while self._undo:
            self._undo.pop()()


def _short_of(resources: list[str]) -> list[str]:
    return ["node(s) pod number exceeded" if r == "pods" else f"Insufficient {r}" for r in resources]
