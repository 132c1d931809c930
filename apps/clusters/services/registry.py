"""What upper apps want to hear of a cluster: their workload objects, and their rows that are due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from apps.accounts.types import Actor
from apps.clusters.domain.lineformat import Line

Id = int | str


@dataclass(frozen=True)
class WorkloadObject:
    """One of our objects as found in a cluster."""

    cluster_id: int
    namespace: str
    name: str
    uid: str
    row_id: str


@dataclass(frozen=True)
class PodReason:
    """Why a pod ended, in the cluster's words: of its status, of what disrupted it, of its main container."""

    status: str = ""
    disruption: str = ""
    container: str = ""


@dataclass(frozen=True)
class PodEnd:
    """How a pod's main container ended. The pod may be gone before anybody can look at it."""

    row_id: str
    pod_uid: str
    pod_name: str
    attempt: int
    rank: int
    node: str
    exit_code: int
    at: datetime
    started_at: datetime | None = None
    reason: PodReason = PodReason()


@dataclass(frozen=True)
class PodEventSeen:
    """What the cluster said of a pod, or (then `pod_name` is "") of a row's workload object or gang: `count` times
    between `first` and `at`. Seen again, the same `uid` has a larger count and a later `at`."""

    row_id: str
    uid: str
    reason: str
    message: str
    is_warning: bool
    count: int
    first: datetime
    at: datetime
    pod_name: str = ""
    attempt: int | None = None
    rank: int | None = None
    node: str = ""


@dataclass(frozen=True)
class PodSeen:
    """How a pod stands whose main container has not ended. `waiting` and `message` are the cluster's words for what it
    waits for."""

    row_id: str
    pod_uid: str
    phase: str
    node: str
    waiting: str
    message: str
    started_at: datetime | None


@dataclass(frozen=True)
class Link:
    """A row as a page names it."""

    name: str
    url: str


@dataclass(frozen=True)
class Owner:
    """Whose namespace it is, for people who may know."""

    slug: str
    name: str


Owners = Mapping[tuple[int, str], Owner]


class Told(Protocol):
    """What a log line says its step came to, by series; `step` is None where it says none. `marks` are kept like values
    and are no curves; those without a step stand at 0."""

    @property
    def step(self) -> int | None: ...
    @property
    def values(self) -> Mapping[str, float]: ...
    @property
    def marks(self) -> Mapping[str, float]: ...


class LogReader(Protocol):
    """Reads the lines of one run of a container, in their order. `glance` looks over the texts of many, each with its
    newline, and gives places (bytes) in all that tell figures or marks, and perhaps in others; None for all."""

    def read(self, line: Line) -> Told: ...
    def glance(self, texts: bytes) -> Sequence[int] | None: ...


@dataclass(frozen=True)
class WorkloadKind:
    """A kind of work that upper apps put into clusters.

    `label` is on each of its objects and pods, with the row's id as value; `objects` is the kind of those that stand
    for a row (group and version, name). `task` is woken with that id when something changed. `topic` gives the stream
    for its log lines, `reader` what reads their figures; `figures_task` is woken with the
    id when some were kept. `known` says which of some ids have a row; `orphan` is told of an object without one
    (default: it is left alone and logged). `unsettled` says which of some ids, whose objects are there, must be looked
    at although nothing changes (default: all): others have ended well, or are due by themselves. `ended` is told of
    each pod that ended, before the row is woken for it. `seen` is told of pods that came or changed, of all that did so
    within a moment together, while their rows are woken: a page need not wait for the look; it gives the uids of those
    that somebody else writes at this moment, to be told once more soon. `said` is told of events about them, of those
    within a second together; of some again, when the watch looks again. `waiting` gives the ids of
    rows that waited for a cluster, by its id, which answers again: they are woken at once. `exposed` tells of some ids
    which metrics their pods expose to Prometheus, by series; the one of `step` tells where the others belong.
    """

    label: str
    task: str
    topic: Callable[[str], str]
    reader: Callable[[], LogReader] | None = None
    figures_task: str = ""
    known: Callable[[set[str]], set[str]] | None = None
    unsettled: Callable[[set[str]], set[str]] | None = None
    orphan: Callable[[WorkloadObject], None] | None = None
    ended: Callable[[PodEnd], None] | None = None
    seen: Callable[[Sequence[PodSeen]], Set[str]] | None = None
    said: Callable[[Sequence[PodEventSeen]], None] | None = None
    waiting: Callable[[int], Iterable[str]] | None = None
    exposed: Callable[[set[str]], Mapping[str, Mapping[str, str]]] | None = None
    objects: tuple[str, str] = ("batch.volcano.sh/v1alpha1", "Job")
    links: Callable[[Actor, set[str]], Mapping[str, Link]] | None = None
    """Name and page of some rows, by id: of those alone that this person may see."""


_workloads: dict[str, WorkloadKind] = {}
_due: dict[str, Callable[[], Iterable[Id]]] = {}
_due_first: dict[str, Callable[[], Iterable[Id]]] = {}
_owners: list[Callable[[Actor], Owners]] = []


def register_workload(kind: WorkloadKind) -> None:
    """Called once for each kind, in the owning app's ready()."""
    if kind.label in _workloads:
        raise ValueError(f"The workload label {kind.label} is registered twice.")
    _workloads[kind.label] = kind


def workloads() -> tuple[WorkloadKind, ...]:
    return tuple(_workloads.values())


def register_due(task: str, sweep: Callable[[], Iterable[Id]], first: Callable[[], Iterable[Id]] | None = None) -> None:
    """`sweep` returns ids of rows to look at now; `task` is woken with each. Asked every second. `first` returns those
    of them that somebody waits for."""
    if task in _due:
        raise ValueError(f"Due rows of {task} are registered twice.")
    _due[task] = sweep
    if first is not None:
        _due_first[task] = first


def first_sweeps() -> Mapping[str, Callable[[], Iterable[Id]]]:
    return dict(_due_first)


def due_sweeps() -> Mapping[str, Callable[[], Iterable[Id]]]:
    return dict(_due)


def register_owners(tell: Callable[[Actor], Owners]) -> None:
    """`tell` says whose namespaces are, by cluster and namespace: of those alone that this person may see."""
    _owners.append(tell)


def owners(actor: Actor) -> Owners:
    found: dict[tuple[int, str], Owner] = {}
    for tell in _owners:
        found |= tell(actor)
    return found
