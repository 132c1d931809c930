"""What a session works on: nodes, tasks (pods), jobs (PodGroups) and queues, built from the objects of the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.objects import (
    GROUP_NAME,
    PREEMPTABLE,
    TASK_SPEC,
    annotation,
    deleting,
    name,
    namespace,
    pod_phase,
)
from apps.localcluster.volcano.quantity import Resources

Object = dict[str, Any]

OCCUPYING = ("Allocated", "Binding", "Bound", "Running")
"""States of a task that holds its resources for good."""
_READY = (*OCCUPYING, "Succeeded")
SCHEDULED = ("Bound", "Running", "Succeeded", "Failed")
_PODS = "pods"


def schedulable(amounts: Resources) -> Resources:
    """The resources that a scheduler counts: not the keys of quotas (`limits.cpu`, `requests.…`, `count/pods`)."""
    return {k: v for k, v in amounts.items() if not k.startswith(("limits.", "requests.", "count/"))}


def resources_of(pod: Object) -> Resources:
    return {**quantity.pod_total(pod["spec"], "requests"), _PODS: 1000}


@dataclass(eq=False)
class Task:
    """A pod. `state` is Volcano's: Pending, Pipelined, Allocated, Binding, Bound, Running, Releasing, Succeeded, …"""

    pod: Object
    role: str
    request: Resources
    priority: int
    state: str
    node: str
    fault: str = ""  # why no node takes it, in the words of the session
    gated: bool = False
    tried: tuple[str, str] = ("", "")  # state and node of a placing that was taken back
    evicted: str = ""  # why the session takes its place away

    @property
    def label(self) -> str:
        return f"{namespace(self.pod)}/{name(self.pod)}"

    @property
    def best_effort(self) -> bool:
        return not any(value for key, value in self.request.items() if key != _PODS)

    @property
    def occupying(self) -> bool:
        return self.state in OCCUPYING

    @property
    def waiting(self) -> bool:
        """Whether it is the session's to place."""
        return self.state == "Pending" and not self.gated and self.pod["spec"].get("schedulerName") == "volcano"

    @property
    def preemptable(self) -> bool:
        """Whether it may be evicted for others: unless its annotation, or else its label, says no."""
        marks = (self.pod["metadata"].get(kind) or {} for kind in ("annotations", "labels"))
        given = next((mark[PREEMPTABLE] for mark in marks if PREEMPTABLE in mark), "true")
        return self.state in ("Bound", "Running") and given.lower() in ("1", "t", "true")

    @property
    def polite(self) -> bool:
        return bool(self.pod["spec"].get("preemptionPolicy") == "Never")

    @classmethod
    def of(cls, pod: Object) -> Task:
        return cls(
            pod,
            annotation(pod, TASK_SPEC) or "",
            resources_of(pod),
            int(pod["spec"].get("priority") or 0),
            task_state(pod),
            str(pod["spec"].get("nodeName") or ""),
            gated=bool(pod["spec"].get("schedulingGates")),
        )

    def order(self) -> tuple[Any, ...]:
        """Important and old ones first, then by index."""
        index = name(self.pod).rpartition("-")[2]
        created = self.pod["metadata"].get("creationTimestamp", "")
        return (-self.priority, created, int(index) if index.isdigit() else 0, name(self.pod))


def task_state(pod: Object) -> str:
    phase = pod_phase(pod)
    if phase in ("Running", "Pending") and deleting(pod):
        return "Releasing"
    if phase == "Pending":
        return "Bound" if pod["spec"].get("nodeName") else "Pending"
    return phase


@dataclass(eq=False)
class Node:
    """A node and what is taken of it; `used` counts pods that are going, `pipelined` what is promised of theirs."""

    item: Object
    allocatable: Resources
    used: Resources = field(default_factory=dict)
    releasing: Resources = field(default_factory=dict)
    pipelined: Resources = field(default_factory=dict)
    pods: list[Task] = field(default_factory=list)

    @classmethod
    def of(cls, item: Object) -> Node:
        return cls(item, quantity.parse_all((item.get("status") or {}).get("allocatable")))

    @property
    def label(self) -> str:
        return name(self.item)

    def take(self, task: Task) -> None:
        self.pods.append(task)
        self.used = quantity.add(self.used, task.request)
        if task.state == "Releasing":
            self.releasing = quantity.add(self.releasing, task.request)

    def let_go(self, task: Task) -> None:
        """A pod is told to go: what it uses is free later."""
        self.releasing = quantity.add(self.releasing, task.request)

    def keep(self, task: Task) -> None:
        self.releasing = quantity.subtract(self.releasing, task.request)

    def promise(self, task: Task) -> None:
        self.pipelined = quantity.add(self.pipelined, task.request)

    def take_back(self, task: Task) -> None:
        self.pipelined = quantity.subtract(self.pipelined, task.request)

    def give_back(self, task: Task) -> None:
        self.pods.remove(task)
        self.used = quantity.subtract(self.used, task.request)

    def lacking(self, request: Resources) -> list[str]:
        """What is missing now."""
        return sorted(k for k, v in request.items() if v > 0 and v > self.allocatable.get(k, 0) - self.used.get(k, 0))

    def lacking_later(self, request: Resources, freed: Resources | None = None) -> list[str]:
        """What will be missing when the pods that are going, and those that hold `freed`, are gone."""
        free = {
            k: self.allocatable.get(k, 0) + self.releasing.get(k, 0) - self.used.get(k, 0) - self.pipelined.get(k, 0)
            for k in request
        }
        return sorted(k for k, v in request.items() if v > 0 and v > free[k] + (freed or {}).get(k, 0))


@dataclass(eq=False)
class Job:
    """A PodGroup with its tasks."""

    group: Object
    priority: int
    tasks: list[Task] = field(default_factory=list)
    # Kept up to date by `add` and `turn`: a session asks for them once a task.
    _counts: Counter[tuple[str, str, bool]] = field(default_factory=Counter)  # role, state, asks for nothing
    _held: Resources = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{namespace(self.group)}/{name(self.group)}"

    def add(self, task: Task) -> None:
        self.tasks.append(task)
        self._count(task, 1)

    def turn(self, task: Task, state: str) -> None:
        """One of its tasks comes into another state."""
        self._count(task, -1)
        task.state = state
        self._count(task, 1)

    def _count(self, task: Task, number: int) -> None:
        self._counts[task.role, task.state, task.best_effort] += number
        if task.occupying:
            change = quantity.add if number > 0 else quantity.subtract
            self._held = change(self._held, task.request)

    @property
    def queue(self) -> str:
        return str(self.group["spec"].get("queue") or "default")

    @property
    def minimum(self) -> int:
        return int(self.group["spec"].get("minMember") or 0)

    @property
    def phase(self) -> str:
        return str((self.group.get("status") or {}).get("phase") or "Pending")

    @property
    def topology(self) -> Object | None:
        """`networkTopology` of the PodGroup."""
        return self.group["spec"].get("networkTopology") or None

    @property
    def asked(self) -> Resources | None:
        """`minResources`; None if the PodGroup names none."""
        given = self.group["spec"].get("minResources")
        return None if given is None else schedulable(quantity.parse_all(given))

    def states(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (_, state, _), count in self._counts.items():
            found[state] += count
        return +found

    def ready_count(self) -> int:
        return self._roles(_READY).total()

    def best_effort_count(self) -> int:
        """Pods that wait and ask for nothing: they find a place anywhere."""
        return sum(count for (_, state, free), count in self._counts.items() if state == "Pending" and free)

    def _roles(self, states: Iterable[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for (role, state, _), count in self._counts.items():
            if state in states:
                found[role] += count
        return found

    def _minimums(self) -> dict[str, int]:
        """The minimums of the tasks; none where the job's own minimum asks for less than they do together."""
        given = {k: int(v) for k, v in (self.group["spec"].get("minTaskMember") or {}).items()}
        return given if self.minimum >= sum(given.values()) else {}

    def valid(self) -> bool:
        """Whether enough pods exist at all."""
        there = self._roles((*_READY, "Pipelined", "Pending"))
        enough = there.total() >= self.minimum
        return enough and all(there[role] >= least for role, least in self._minimums().items())

    def ready(self) -> bool:
        """Whether the gang can run with what it holds."""
        held = self._roles(_READY)
        enough = held.total() + self.best_effort_count() >= self.minimum
        return enough and all(held[role] >= least for role, least in self._minimums().items())

    def pipelined(self) -> bool:
        """Whether the gang could run when the pods that are going are gone."""
        held = self._roles((*_READY, "Pipelined"))
        enough = held.total() + self.best_effort_count() >= self.minimum
        return enough and all(held[role] >= least for role, least in self._minimums().items())

    @property
    def starving(self) -> bool:
        """Whether its minimum is more than what it has and was promised."""
        return self._roles((*_READY, "Pipelined")).total() < self.minimum

    def worth_continuing(self, failed: set[str]) -> bool:
        """Whether the gang can still be completed although these roles found no node."""
        if self.minimum == len(self.tasks):
            return False
        minimums = self._minimums()
        if not minimums and self.group["spec"].get("minTaskMember"):
            waiting = self._roles(("Pending",))
            return self.ready_count() + waiting.total() - sum(waiting[role] for role in failed) >= self.minimum
        held = self._roles(OCCUPYING)
        return all(held[role] >= minimums.get(role, 0) for role in failed)

    def allocated(self) -> Resources:
        return {key: value for key, value in self._held.items() if value}

    def gated(self) -> Resources:
        return quantity.add(*(task.request for task in self.tasks if task.gated))


@dataclass(frozen=True)
class Snapshot:
    """What a session decides on. `priorities`: PriorityClass values by name, the default one under ""."""

    nodes: list[Object]
    pods: list[Object]
    groups: list[Object]
    queues: list[Object]
    claims: dict[tuple[str, str], Object]
    services: list[Object]
    priorities: dict[str, int]
    hypernodes: list[Object] = field(default_factory=list)

    def build(self) -> tuple[dict[str, Node], list[Job], dict[str, Object]]:
        nodes = {name(item): Node.of(item) for item in self.nodes}
        queues = {name(item): item for item in self.queues}
        jobs: dict[tuple[str, str], Job] = {}
        for group in self.groups:
            wanted = group["spec"].get("priorityClassName") or ""
            priority = self.priorities.get(wanted, self.priorities.get("", 0))
            jobs[namespace(group), name(group)] = Job(group, priority)
        for pod in self.pods:
            task = Task.of(pod)
            job = jobs.get((namespace(pod), annotation(pod, GROUP_NAME) or ""))
            if job is not None:
                job.add(task)
            if task.node in nodes and task.state not in ("Succeeded", "Failed"):
                nodes[task.node].take(task)
        for job in jobs.values():
            job.tasks.sort(key=Task.order)
        return nodes, [job for job in jobs.values() if job.queue in queues], queues
