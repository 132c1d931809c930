"""The few fields of cluster objects that the watch process looks at. Every field may be missing or odd.

There are thousands of pods, so what nobody looks at is dropped as it is read, and the collector is spared (`gc=False`:
nothing here refers back to what holds it).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from apps.adapters.kubernetes.stream import Listed, Meta

RETRIES = "volcano.sh/job-retry-count"
TASK_INDEX = "volcano.sh/task-index"
TASK_SPEC = "volcano.sh/task-spec"

RANK = "RANK"
OURS = "maas.portal/"
"""What the names of our labels begin with."""

ENDED = frozenset({"Succeeded", "Failed"})
DISRUPTED = "DisruptionTarget"


class Ended(msgspec.Struct, gc=False):
    exitCode: int | None = None  # noqa: N815 (the API's name)
    reason: str | None = None
    startedAt: datetime | None = None  # noqa: N815
    finishedAt: datetime | None = None  # noqa: N815


class Waiting(msgspec.Struct, gc=False):
    reason: str | None = None
    message: str | None = None


class Running(msgspec.Struct, gc=False):
    startedAt: datetime | None = None  # noqa: N815


class State(msgspec.Struct, gc=False):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Ended | None = None


class ContainerStatus(msgspec.Struct, gc=False):
    name: str = ""
    restartCount: int = 0  # noqa: N815
    state: State | None = None

    @property
    def is_running(self) -> bool:
        return self.state is not None and self.state.running is not None

    @property
    def has_ended(self) -> bool:
        return self.state is not None and self.state.terminated is not None


class Variable(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = None


class Resources(msgspec.Struct, gc=False):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, gc=False):
    name: str = ""
    env: list[Variable] | None = None
    resources: Resources | None = None
    restartPolicy: str | None = None  # noqa: N815

    def __post_init__(self) -> None:
        self.env = [variable for variable in self.env or () if variable.name == RANK] or None


class PodSpec(msgspec.Struct, gc=False):
    nodeName: str | None = None  # noqa: N815
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815


class _PodCondition(msgspec.Struct, gc=False):
    type: str = ""
    reason: str | None = None


class PodStatus(msgspec.Struct, gc=False):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    conditions: list[_PodCondition] | None = None
    containerStatuses: list[ContainerStatus] | None = None  # noqa: N815

    def __post_init__(self) -> None:
        self.conditions = [one for one in self.conditions or () if one.type == DISRUPTED] or None

    @property
    def disruption(self) -> str:
        """What took the pod off its node, if something did."""
        return (self.conditions[0].reason or "") if self.conditions else ""


class _Notes(msgspec.Struct, gc=False, rename={"retries": RETRIES, "task_index": TASK_INDEX, "task_spec": TASK_SPEC}):
    """The annotations that Volcano puts on pods."""

    retries: str = ""
    task_index: str = ""
    task_spec: str = ""


class _PodMeta(Meta, gc=False):
    annotations: _Notes | None = None

    def __post_init__(self) -> None:
        self.labels = {name: text for name, text in (self.labels or {}).items() if name.startswith(OURS)} or None


class Pod(Listed, gc=False):
    metadata: _PodMeta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def attempt(self) -> int:
        """1 for the first run; Volcano counts its restarts on each pod it makes."""
        count = self.metadata.annotations.retries if self.metadata.annotations else ""
        return int(count) + 1 if count.isdigit() else 1

    @property
    def rank(self) -> int:
        """What the pytorch plugin put into the environment, else the place within its task."""
        for container in self.spec.containers or []:
            for variable in container.env or []:
                if (variable.value or "").isdigit():
                    return int(variable.value or 0)
        notes = self.metadata.annotations or _Notes()
        index = notes.task_index or self.metadata.name.rpartition("-")[2]
        after_master = notes.task_spec == "worker"
        return int(index) + after_master if index.isdigit() else 0

    @property
    def main(self) -> State:
        """How its main container stands."""
        statuses = self.status.containerStatuses
        return (statuses[0].state if statuses else None) or State()

    @property
    def end(self) -> Ended | None:
        """How its main container ended, if it has."""
        return self.main.terminated


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815


class NodeTaint(msgspec.Struct, gc=False):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(msgspec.Struct):
    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class NodeInfo(msgspec.Struct):
    kubeletVersion: str = ""  # noqa: N815
    containerRuntimeVersion: str = ""  # noqa: N815
    kernelVersion: str = ""  # noqa: N815
    osImage: str = ""  # noqa: N815
    architecture: str = ""


class NodeAddress(msgspec.Struct):
    type: str = ""
    address: str = ""


class NodeStatus(msgspec.Struct):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[Condition] | None = None
    addresses: list[NodeAddress] | None = None
    nodeInfo: NodeInfo = msgspec.field(default_factory=NodeInfo)  # noqa: N815


class Node(Listed):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Owner(msgspec.Struct):
    uid: str = ""


class _OwnedMeta(Meta):
    ownerReferences: list[Owner] | None = None  # noqa: N815


class PodGroup(msgspec.Struct):
    metadata: _OwnedMeta


class Involved(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Series(msgspec.Struct):
    count: int | None = None
    lastObservedTime: datetime | None = None  # noqa: N815


class ClusterEvent(Listed):
    """Clients of the older API fill `count` and the two timestamps, schedulers `eventTime` and, from the second time
    on, `series`."""

    involvedObject: Involved = msgspec.field(default_factory=Involved)  # noqa: N815
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    series: _Series | None = None
    firstTimestamp: datetime | None = None  # noqa: N815
    lastTimestamp: datetime | None = None  # noqa: N815
    eventTime: datetime | None = None  # noqa: N815

    @property
    def times(self) -> int:
        return max(1, self.count or 0, (self.series.count or 0) if self.series else 0)

    @property
    def last(self) -> datetime | None:
        """When it was last seen."""
        observed = self.series.lastObservedTime if self.series else None
        return max((at for at in (observed, self.lastTimestamp, self.eventTime) if at), default=None)

    @property
    def first(self) -> datetime | None:
        return self.firstTimestamp or self.eventTime or self.last


NODES = msgspec.json.Decoder(Node)
PODS = msgspec.json.Decoder(Pod)
POD_GROUPS = msgspec.json.Decoder(PodGroup)
EVENTS = msgspec.json.Decoder(ClusterEvent)
OBJECTS = msgspec.json.Decoder(Listed)
