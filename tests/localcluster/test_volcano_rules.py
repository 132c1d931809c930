"""Whatever comes in whatever order: gangs, nodes and queues keep their rules."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.localcluster.volcano.objects import name
from apps.localcluster.volcano.scheduler.settings import Settings
from tests.localcluster.test_volcano_scheduler import gang
from tests.localcluster.volcano_cases import SETUP, Object
from tests.localcluster.volcano_world import World

GPU = "nvidia.com/gpu"
NODES, GPUS = 4, 8
AMOUNT = st.integers(1, NODES * GPUS)


@dataclass(frozen=True)
class Wish:
    pods: int
    gpus: int
    least: int
    queue: str
    priority: str
    ends: bool  # one of the jobs that run ends before the next one comes


WISHES = st.builds(
    lambda pods, gpus, spare, *rest: Wish(pods, gpus, max(1, pods - spare), *rest),
    st.integers(1, 6),
    st.integers(1, GPUS),
    st.sampled_from([0, 0, 1, 5]),
    st.sampled_from(["qa", "qb"]),
    st.sampled_from(["low", "high"]),
    st.booleans(),
)
QUEUES = st.fixed_dictionaries({}, optional={"capability": AMOUNT, "deserved": AMOUNT})


def queue(label: str, spec: dict[str, int]) -> Object:
    limits = {kind: {GPU: str(amount)} for kind, amount in spec.items()}
    if {"capability", "deserved"} <= spec.keys():
        limits["deserved"] = {GPU: str(min(spec.values()))}  # more is refused at the door
    return {"kind": "Queue", "metadata": {"name": label}, "spec": limits}


def submit(world: World, label: str, wish: Wish) -> None:
    job = gang(label, wish.pods, wish.gpus, queue=wish.queue, priorityClassName=wish.priority, minAvailable=wish.least)
    job["spec"]["tasks"][0]["minAvailable"] = wish.least
    world.create(job)


def held(world: World, label: str) -> int:
    """GPUs in the hands of a queue's pods."""
    return sum(
        int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])
        for pod in world.pods.values()
        if pod["status"]["phase"] == "Running" and pod["metadata"]["labels"]["volcano.sh/queue-name"] == label
    )


def running(world: World, job: str) -> int:
    return sum(p["status"]["phase"] == "Running" for key, p in world.pods.items() if key.startswith(f"{job}-"))


def check(world: World, wishes: dict[str, Wish]) -> None:
    assert all(used <= GPUS for used in world.gpus().values())
    for label in ("qa", "qb"):
        capability = world.queues[label]["spec"].get("capability", {}).get(GPU)
        assert capability is None or held(world, label) <= int(capability)
    reclaimed = {group.partition("-uid-")[0] for group, _, words in world.told if words == "reclaim"}
    for label, wish in wishes.items():
        # Reclaim may break a gang, as in life; preemption may not.
        assert label in reclaimed or running(world, label) == 0 or running(world, label) >= wish.least
    for eviction in world.decisions.evictions:
        assert eviction.reason != "reclaim" or world.queues[eviction.group["spec"]["queue"]]["spec"]["reclaimable"]


@settings(max_examples=150, deadline=None)
@given(st.lists(WISHES, min_size=1, max_size=6), QUEUES, QUEUES, st.sampled_from(["testbed", "testbed+overcommit-10"]))
def test_gangs_nodes_and_queues_keep_their_rules(wishes: list[Wish], qa: Object, qb: Object, setting: str) -> None:
    world = World(settings=Settings.parse(SETUP["schedulers"][setting]), priorities={"low": 10, "high": 1000})
    world.create(queue("qa", qa))
    world.create(queue("qb", qb))
    known: dict[str, Wish] = {}
    for number, wish in enumerate(wishes):
        if wish.ends:
            for pod in [p for p in world.pods.values() if p["status"]["phase"] == "Running"][:1]:
                job = name(pod).split("-")[0]
                for mine in [key for key in world.pods if key.startswith(f"{job}-")]:
                    world.end(mine, 0)
                known.pop(job)
        known[f"j{number}"] = wish
        submit(world, f"j{number}", wish)
        world.settle()
        check(world, known)
