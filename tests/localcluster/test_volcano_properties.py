"""A thousand random gangs, fleets and queues: no session of the scheduler breaks a rule, whatever comes in what order.

The rules are written here once more, from what Volcano promises, and on plain objects: nothing of the scheduler's own
arithmetic judges it. VOLCANO_EXAMPLES=20000 looks further, each time somewhere else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.localcluster.volcano.scheduler import session
from tests.localcluster.volcano_cases import Object
from tests.localcluster.volcano_random import (
    CLASSES,
    COUNTED,
    CPU,
    GPU,
    LENDING,
    LENT,
    NODES,
    PODS,
    QUEUES,
    SETTINGS,
    WANTED_BACK,
    Wish,
    World,
    known_queues,
    node,
    owner,
    wishes,
)

DEEPER = "VOLCANO_EXAMPLES"
REST_SESSIONS = 30
CROWDED = [name for name in SETTINGS if "overcommit" in name]
"""Only a fleet that lets in more than it has comes to preemption and reclaim often."""


# --- the rules ------------------------------------------------------------------------------------------------------


def asks(item: Object) -> Counter[str]:
    requests = item["spec"]["containers"][0]["resources"]["requests"]
    return Counter({PODS: 1, GPU: int(requests.get(GPU, 0)), CPU: int(requests[CPU])})


@dataclass(frozen=True)
class Before:
    """What was so before a session: for the rules to compare with."""

    held: dict[str, Counter[str]]
    placed: dict[str, Counter[str]]  # of a gang, pods with a node by role
    waiting: set[str]  # gangs with pods that have no node
    let_in: set[str]

    @classmethod
    def of(cls, world: World) -> Before:
        groups = world.groups.items()
        return cls(
            held(world),
            placed(world),
            {owner(item) for item in world.pods.values() if "nodeName" not in item["spec"]},
            {label for label, group in groups if group["status"].get("phase", "Pending") != "Pending"},
        )


def held(world: World) -> dict[str, Counter[str]]:
    """By queue: what its pods hold that run or will, not what is going."""
    found: dict[str, Counter[str]] = {label: Counter() for label in world.queues}
    for item in staying(world):
        found[world.wishes[owner(item)].queue].update(asks(item))
    return found


def placed(world: World) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {label: Counter() for label in world.groups}
    for item in staying(world):
        found[owner(item)][item["metadata"]["annotations"]["volcano.sh/task-spec"]] += 1
    return found


def staying(world: World) -> Iterator[Object]:
    for item in world.pods.values():
        if "nodeName" in item["spec"] and "deletionTimestamp" not in item["metadata"]:
            yield item


def family(world: World, label: str) -> list[str]:
    """The queue and all below it."""
    below = [other for other, item in world.queues.items() if item["spec"].get("parent") == label]
    return [label, *(each for child in below for each in family(world, child))]


def limit(world: World, label: str, kind: str) -> int | None:
    part: Any = world.queues[label]["spec"].get(kind) or {}
    value = (part.get("resource") or {} if kind == "guarantee" else part).get(GPU)
    return None if value is None else int(value)


def deserved(world: World, label: str) -> int:
    """A queue deserves what it says, not more than its capability, not less than its guarantee."""
    given = [amount for kind in ("deserved", "capability") if (amount := limit(world, label, kind)) is not None]
    named = limit(world, label, "deserved") is not None
    return max(min(given) if named else 0, limit(world, label, "guarantee") or 0)


def no_node_holds_more_than_it_has(world: World) -> None:
    used: dict[str, Counter[str]] = {}
    for item in world.pods.values():  # those that are going hold their place until they are gone
        if "nodeName" in item["spec"]:
            used.setdefault(item["spec"]["nodeName"], Counter()).update(asks(item))
    for each in world.nodes:
        for resource in COUNTED:
            amount = used.get(each["metadata"]["name"], Counter())[resource]
            assert amount <= int(each["status"]["allocatable"][resource]), (each["metadata"]["name"], resource)


def no_pod_comes_to_a_closed_node(world: World, decisions: session.Decisions) -> None:
    nodes = {each["metadata"]["name"]: each for each in world.nodes}
    for item, where in decisions.bindings:
        chosen = nodes[where]
        assert not chosen["spec"]["unschedulable"], "cordoned"
        assert not chosen["spec"]["taints"] or item["spec"]["tolerations"], "tainted"
        assert chosen["status"]["conditions"][0]["status"] == "True", "not ready"


def a_gang_starts_whole_or_not_at_all(world: World, decisions: session.Decisions) -> None:
    now = placed(world)
    for label in {owner(item) for item, _ in decisions.bindings}:
        spec = world.groups[label]["spec"]
        assert now[label].total() >= spec["minMember"], f"{label} starts with {now[label].total()}"
        for role, least in spec["minTaskMember"].items():
            assert now[label][role] >= least, f"{label} starts without its {role}"


def a_queue_gets_no_more_than_its_limits(world: World, before: Before, decisions: session.Decisions) -> None:
    now, hierarchy = held(world), world.settings.has("capacity", "enableHierarchy")
    limited = world.settings.has("capacity") or world.settings.has("proportion")
    for label in {world.wishes[owner(item)].queue for item, _ in decisions.bindings}:
        assert world.queues[label]["status"]["state"] == "Open", f"{label} is closed and is given something"
        line = [label]
        while hierarchy and (parent := world.queues[line[-1]]["spec"].get("parent")):
            line.append(parent)
        for each in line if limited else []:
            amount = sum(now[one][GPU] for one in (family(world, each) if hierarchy else [each]))
            grown = amount > sum(before.held[one][GPU] for one in (family(world, each) if hierarchy else [each]))
            capability = limit(world, each, "capability")
            assert not grown or capability is None or amount <= capability, f"{each} has {amount} of {capability}"
        if limited and not hierarchy and now[label][GPU] > before.held[label][GPU]:
            whole = sum(int(each["status"]["allocatable"][GPU]) for each in world.nodes)
            others = sum(limit(world, other, "guarantee") or 0 for other in world.queues if other != label)
            assert now[label][GPU] <= max(whole - others, limit(world, label, "guarantee") or 0), "guaranteed to others"
    for label, group in world.groups.items():
        if label not in before.let_in and group["status"].get("phase", "Pending") != "Pending":
            assert world.queues[world.wishes[label].queue]["status"]["state"] == "Open", "let in by a closed queue"
            assert not hierarchy or len(family(world, world.wishes[label].queue)) == 1, "let in by an inner queue"


def preemption_is_for_the_more_important(world: World, before: Before, decisions: session.Decisions) -> None:
    gangs_are_safe = world.settings.has("gang", "enablePreemptable")
    for eviction in decisions.evictions:
        victim = owner(eviction.pod)
        assert not world.wishes[victim].protected
        if eviction.reason != "preempt":
            continue
        least = CLASSES[world.wishes[victim].priority]
        wanting = [
            wish
            for label, wish in world.wishes.items()
            if label in before.waiting and wish.queue == world.wishes[victim].queue and not wish.polite
        ]
        assert any(CLASSES[wish.priority] > least for wish in wanting), f"{victim} is preempted for nobody"
        if gangs_are_safe:
            assert placed(world)[victim].total() >= world.groups[victim]["spec"]["minMember"], f"{victim} is broken"


def reclaim_takes_only_what_was_borrowed(world: World, before: Before, decisions: session.Decisions) -> None:
    taken: dict[str, list[Counter[str]]] = {}
    for eviction in decisions.evictions:
        if eviction.reason == "reclaim":
            taken.setdefault(world.wishes[owner(eviction.pod)].queue, []).append(asks(eviction.pod))
    for label, pods in taken.items():
        assert world.queues[label]["spec"]["reclaimable"], f"{label} may not be reclaimed from"
        # One whose pods are there already may be let in again and claim at once.
        admitted = before.let_in | Before.of(world).let_in
        waiting = {world.wishes[each].queue for each in before.waiting & admitted} - {label}
        assert waiting, f"{label} is reclaimed from for nobody"
        if not world.settings.has("capacity"):
            continue
        lost = {each: sum(pod[GPU] for pod in taken.get(each, [])) for each in waiting}
        asking = {each for each in waiting if before.held[each][GPU] - lost[each] < deserved(world, each)}
        assert asking, "nobody has less than it deserves"
        if all(plugin.name != "capacity" for plugin in world.settings.tiers[0]):
            continue  # the first tier decides without it
        left = before.held[label][GPU] - sum(each[GPU] for each in pods)
        assert left >= (limit(world, label, "guarantee") or 0) or not any(e[GPU] for e in pods), "less than guaranteed"
        if limit(world, label, "deserved") is not None and deserved(world, label):
            # Before the last one went it still had more than it deserves.
            assert any(not each[GPU] or left + each[GPU] > deserved(world, label) for each in pods), (
                "less than deserved"
            )


def judge(world: World, before: Before, decisions: session.Decisions) -> None:
    no_node_holds_more_than_it_has(world)
    no_pod_comes_to_a_closed_node(world, decisions)
    a_gang_starts_whole_or_not_at_all(world, decisions)
    a_queue_gets_no_more_than_its_limits(world, before, decisions)
    preemption_is_for_the_more_important(world, before, decisions)
    reclaim_takes_only_what_was_borrowed(world, before, decisions)


# --- all of it ------------------------------------------------------------------------------------------------------


def settle(world: World) -> None:
    for _ in range(REST_SESSIONS):
        world.make_pods()
        before, decisions = Before.of(world), world.schedule()
        world.follow(decisions)
        judge(world, before, decisions)
        if not decisions.bindings and not decisions.evictions and before.let_in == Before.of(world).let_in:
            return


def play(fleet: list[Object], queues: dict[str, Object], gangs: list[Wish], setting: str) -> None:
    scheduler = SETTINGS[setting]
    known = known_queues(queues, hierarchy=scheduler.has("capacity", "enableHierarchy"))
    world = World(scheduler, [node(number, wish) for number, wish in enumerate(fleet)], known)
    for wish in gangs:
        if wish.ends_one:
            world.end()
        world.submit(wish)
        settle(world)


def examples(number: int) -> settings:
    return settings(
        max_examples=int(os.environ.get(DEEPER, number)),
        derandomize=DEEPER not in os.environ,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


SLOW = pytest.mark.timeout(0 if DEEPER in os.environ else 300)


@SLOW
@examples(1000)
@given(
    NODES,
    st.fixed_dictionaries(dict.fromkeys(("dept", "qa", "qb", "qc"), QUEUES)),
    wishes(["low", "low", ""], ["qa", "qa", "qa", "qc", "default"]),  # they fill the fleet
    wishes(["high", "high", "low"], ["qb", "qb", "qa", "qc"]),  # and these want it
    st.sampled_from([*SETTINGS, *["hierarchy", *CROWDED] * 3]),
)
def test_no_session_breaks_a_rule(
    fleet: list[Object], queues: dict[str, Object], first: list[Wish], then: list[Wish], setting: str
) -> None:
    play(fleet, queues, first + then, setting)


@SLOW
@examples(500)
@given(
    st.integers(1, 4),
    LENDING,
    st.lists(LENT, min_size=2, max_size=6),
    st.lists(WANTED_BACK, min_size=1, max_size=3),
    st.sampled_from([*CROWDED, *["guarded+overcommit-10", "hierarchy"] * 3]),
)
def test_what_is_lent_comes_back_by_the_rules(
    size: int, queues: dict[str, Object], lent: list[Wish], wanted: list[Wish], setting: str
) -> None:
    fleet = [{GPU: 8, CPU: 64, PODS: 16, "ill": ""}] * size
    play(fleet, queues, lent + wanted, setting)
