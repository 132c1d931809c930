"""Random fleets, queues and gangs, and a cluster in memory that does at once what the scheduler decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from apps.localcluster.volcano.admission import queues as admission
from apps.localcluster.volcano.scheduler import session
from apps.localcluster.volcano.scheduler.model import Snapshot
from apps.localcluster.volcano.scheduler.settings import Settings
from tests.localcluster.volcano_cases import SETUP, Object, open_queue

GPU, CPU, PODS = "nvidia.com/gpu", "cpu", "pods"
COUNTED = (GPU, CPU, PODS)
_CAPACITY = "  - name: capacity\n"
_GUARDED = SETUP["schedulers"]["testbed+overcommit-10"].replace(_CAPACITY, "", 1)
SETTINGS = {name: Settings.parse(text) for name, text in SETUP["schedulers"].items() if name != "spread"}
SETTINGS["guarded+overcommit-10"] = Settings.parse(_GUARDED.replace("- plugins:\n", f"- plugins:\n{_CAPACITY}", 1))
"""By the recordings' names; in the last one `capacity` has its say beside `gang`. In the others it is not asked about
victims that the first tier agrees on."""
GROUP_NAME = "scheduling.k8s.io/group-name"
CLASSES = {"": 0, "low": 10, "high": 1000}
GUARDED = {"key": "reserved", "value": "vip", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Wish:
    """A gang: pods by role, those of them that it needs, and what becomes of it later."""

    roles: tuple[tuple[int, int], ...]  # (replicas, least)
    gpus: int
    cpus: int
    queue: str
    priority: str
    polite: bool = False
    protected: bool = False
    tolerant: bool = False
    ends_one: bool = False
    """Before it comes, a gang that runs comes to its end."""


ROLES = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from([0, 5, 5, 2])).map(lambda r: (r[0], max(1, r[0] - r[1]))),
    min_size=1,
    max_size=2,
).map(tuple)


def wishes(priorities: list[str], queues: list[str]) -> st.SearchStrategy[list[Wish]]:
    one = st.builds(
        Wish,
        ROLES,
        st.sampled_from([4, 8, 4, 2, 0]),
        st.sampled_from([1, 1, 1, 4]),
        st.sampled_from(queues),
        st.sampled_from(priorities),
        polite=st.sampled_from([False, False, False, True]),
        protected=st.sampled_from([False, False, False, True]),
        tolerant=st.booleans(),
        ends_one=st.sampled_from([False, False, False, True]),
    )
    return st.lists(one, min_size=1, max_size=4)


LENT = st.builds(
    Wish,
    st.integers(1, 4).map(lambda pods: ((pods, 1),)),
    st.sampled_from([8, 4, 2]),
    st.just(1),
    st.sampled_from(["qa", "qa", "qc"]),
    st.just("low"),
)
WANTED_BACK = st.builds(
    Wish,
    st.integers(1, 2).map(lambda pods: ((pods, pods),)),
    st.sampled_from([8, 4]),
    st.just(1),
    st.sampled_from(["qb", "qb", "qc"]),
    st.just("low"),
)
"""Small jobs that fill a fleet beyond what their queues deserve, and jobs of the queues that have less than that."""

AMOUNT = st.integers(0, 32)
QUEUES = st.fixed_dictionaries(
    {"reclaimable": st.sampled_from([True, True, True, False]), "closed": st.sampled_from([False] * 7 + [True])},
    optional={"capability": AMOUNT, "deserved": AMOUNT, "guarantee": st.integers(0, 8)},
)


def deserving(least: int, most: int) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {
            "reclaimable": st.sampled_from([True, True, True, False]),
            "closed": st.just(False),
            "deserved": st.integers(least, most),
        },
        optional={"guarantee": st.sampled_from([12, 10, 9, 4]), "capability": st.integers(4, 24)},
    )


LENDING = st.fixed_dictionaries(
    {"dept": deserving(0, 8), "qa": deserving(0, 8), "qb": deserving(8, 24), "qc": deserving(0, 16)}
)
ILLS = ("cordoned", "tainted", "dead")
NODES = st.lists(
    st.fixed_dictionaries(
        {
            GPU: st.sampled_from([8, 8, 8, 4, 0]),
            CPU: st.sampled_from([64, 16, 4]),
            PODS: st.sampled_from([16, 16, 3]),
            "ill": st.sampled_from(["", "", "", "", "", *ILLS]),
        }
    ),
    min_size=1,
    max_size=5,
)


def node(number: int, wish: Object) -> Object:
    marks = {ill: wish["ill"] == ill for ill in ILLS}
    return {
        "metadata": {"name": f"n-{number}", "labels": {}},
        "spec": {"unschedulable": marks["cordoned"], "taints": [GUARDED] if marks["tainted"] else []},
        "status": {
            "allocatable": {key: str(wish[key]) for key in COUNTED} | {"memory": "1Ti"},
            "conditions": [{"type": "Ready", "status": "Unknown" if marks["dead"] else "True"}],
        },
    }


def queue(label: str, wish: Object, parent: str) -> Object:
    """Deserved at least what is guaranteed, and allowed at least what is deserved: admission takes no other."""
    limits = {kind: wish[kind] for kind in ("capability", "deserved", "guarantee") if kind in wish}
    for more, less in (("deserved", "guarantee"), ("capability", "deserved")):
        if less in limits and (more in limits or more == "deserved"):
            limits[more] = max(limits.get(more, 0), limits[less])
    spec = {kind: {GPU: str(amount)} for kind, amount in limits.items()}
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": spec["guarantee"]}
    return open_queue(label, reclaimable=wish["reclaimable"], **({"parent": parent} if parent else {}), **spec)


@dataclass
class World:
    """A cluster in memory whose controllers and nodes do at once what they are told."""

    settings: Settings
    nodes: list[Object]
    queues: dict[str, Object]
    groups: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    wishes: dict[str, Wish] = field(default_factory=dict)
    number: int = 0
    made: int = 0

    def submit(self, wish: Wish) -> None:
        self.number += 1
        label = f"j{self.number}"
        self.wishes[label] = wish
        least = sum(each for _, each in wish.roles)
        amounts = {GPU: str(wish.gpus * least), CPU: str(wish.cpus * least), PODS: str(least)}
        self.groups[label] = {
            "metadata": {
                "name": label,
                "namespace": "team-a",
                "uid": label,
                "creationTimestamp": f"2026-01-01T00:{self.number:02d}:00Z",
            },
            "spec": {
                "queue": wish.queue,
                "minMember": least,
                "minTaskMember": {f"r{index}": each for index, (_, each) in enumerate(wish.roles)},
                "priorityClassName": wish.priority,
                "minResources": {key: value for key, value in amounts.items() if value != "0"},
            },
            "status": {},
        }

    def make_pods(self) -> None:
        """Pods of those that were let in, and new ones for those that were taken."""
        for label, wish in self.wishes.items():
            if self.groups[label]["status"].get("phase", "Pending") == "Pending":
                continue
            for index, (replicas, _) in enumerate(wish.roles):
                for number in range(replicas):
                    called = f"{label}-r{index}-{number}"
                    if called not in self.pods:
                        self.made += 1
                        self.pods[called] = pod(called, label, f"r{index}", wish, self.made)

    def end(self) -> None:
        """The first gang that runs comes to its end, pods and all."""
        running = [label for label, group in self.groups.items() if group["status"].get("phase") == "Running"]
        for label in running[:1]:
            del self.groups[label], self.wishes[label]
            self.pods = {called: item for called, item in self.pods.items() if owner(item) != label}

    def schedule(self) -> session.Decisions:
        return session.run(
            Snapshot(
                self.nodes,
                list(self.pods.values()),
                list(self.groups.values()),
                list(self.queues.values()),
                {},
                [],
                CLASSES,
            ),
            self.settings,
        )

    def follow(self, decisions: session.Decisions) -> None:
        """What was going is gone, what was bound runs, what was taken is going."""
        self.pods = {k: p for k, p in self.pods.items() if "deletionTimestamp" not in p["metadata"]}
        for item, where in decisions.bindings:
            item["spec"]["nodeName"], item["status"] = where, {"phase": "Running"}
        for eviction in decisions.evictions:
            eviction.pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        for report in decisions.reports:
            report.group["status"] = report.status


def pod(called: str, label: str, role: str, wish: Wish, age: int) -> Object:
    requests = {GPU: str(wish.gpus), CPU: str(wish.cpus)}
    annotations = {GROUP_NAME: label, "volcano.sh/task-spec": role}
    return {
        "metadata": {
            "name": called,
            "namespace": "team-a",
            "uid": f"p-{age}",
            "creationTimestamp": f"2026-01-01T01:{age // 60 % 60:02d}:{age % 60:02d}Z",
            "annotations": annotations | ({"volcano.sh/preemptable": "false"} if wish.protected else {}),
        },
        "spec": {
            "schedulerName": "volcano",
            "priority": CLASSES[wish.priority],
            "preemptionPolicy": "Never" if wish.polite else "PreemptLowerPriority",
            "tolerations": [{"key": "reserved", "operator": "Exists"}] if wish.tolerant else [],
            "containers": [
                {"name": "main", "resources": {"requests": {k: v for k, v in requests.items() if v != "0"}}}
            ],
        },
        "status": {"phase": "Pending"},
    }


def owner(item: Object) -> str:
    return str(item["metadata"]["annotations"][GROUP_NAME])


def known_queues(wishes: dict[str, Object], *, hierarchy: bool) -> dict[str, Object]:
    """Those of them that admission takes."""
    known = {"default": open_queue(), "root": open_queue("root")}
    for label, wish in wishes.items():
        item = queue(label, wish, "dept" if hierarchy and label in ("qa", "qb") else "root")
        if admission.refuse_create(item, known):
            item = queue(label, {"reclaimable": wish["reclaimable"]}, item["spec"]["parent"])
        known[label] = item
        if wish["closed"]:
            item["status"]["state"] = "Closed"
    return known
