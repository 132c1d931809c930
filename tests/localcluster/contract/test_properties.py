"""Whatever is done in whatever order: both servers answer alike and keep alike, and a watcher misses nothing.

CONTRACT_EXAMPLES=2000 looks further, each time somewhere else.
"""

from __future__ import annotations

import itertools
import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from deploy.testbed import Parts, control_plane, crds
from tests.localcluster.contract.exchange import Exchange
from tests.localcluster.contract.operations import (
    KINDS,
    LAST,
    Operation,
    World,
    bare,
    comparable,
    of,
    plain,
    sequences,
)
from tests.localcluster.contract.rows import Row
from tests.needs import require
from tests.small_cluster import small_cluster

DEEPER = os.environ.get("CONTRACT_EXAMPLES")
COMMON = {
    "derandomize": not DEEPER,
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BARE = Parts(controllers=False, scheduler=False, fleet=None, crds=())
"""What controllers do takes time; here only the server is asked."""
ENOUGH: dict[str, Any] = {
    "Pod": {"spec": {"containers": [{"name": "one", "image": "i"}], "schedulerName": "nobody"}},
    "Service": {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    "Job": {"spec": {"tasks": [{"name": "one", "template": {"spec": {"containers": [{"name": "one"}]}}}]}},
    "PodGroup": {"spec": {}},
    "Deployment": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "one", "image": "i"}]},
            },
        }
    },
    "Queue": {"spec": {}},
}
numbers = itertools.count()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with small_cluster(tmp_path_factory.mktemp("small"), controllers=False) as cluster:
        trust = ssl.create_default_context(cadata=cluster.ca_pem)
        exchange = Exchange(Row("small", cluster.server, cluster.token, trust))
        yield exchange
        exchange.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, small: Exchange) -> Iterator[Exchange]:
    """With the small one's definitions: another version of theirs would have other defaults."""
    require("apiserver")
    with control_plane(Path(tmp_path_factory.mktemp("real")), BARE) as plane:
        exchange = Exchange(Row("real", plane.server, plane.token, ssl.create_default_context(cadata=plane.ca_pem)))
        with plane.api() as api:
            crds.install(api, definitions(small))
        yield exchange
        exchange.close()


def definitions(small: Exchange) -> list[dict[str, Any]]:
    """Volcano's, as they can be applied elsewhere."""
    found = small.ask("GET", DEFINITIONS).json["items"]
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kept = ("name", "annotations")
    return [
        {
            **head,
            "metadata": {key: each["metadata"][key] for key in kept if key in each["metadata"]},
            "spec": each["spec"],
        }
        for each in found
        if each["spec"]["group"].endswith("volcano.sh")
    ]


def new_worlds(*exchanges: Exchange) -> Iterator[World]:
    """One in each cluster, of the same name."""
    name = f"w-{os.getpid()}-{next(numbers)}"
    return (World(exchange, name) for exchange in exchanges)


@pytest.mark.prove
@pytest.mark.timeout(1800 if not DEEPER else 36_000)  # it may have to be built first
@settings(max_examples=int(DEEPER or 200), **COMMON)
@given(sequence=sequences())
def test_both_servers_answer_alike_and_keep_alike(sequence: list[Operation], small: Exchange, real: Exchange) -> None:
    ours, theirs = new_worlds(small, real)
    for operation in sequence:
        note(str(operation))
        told, right = ours.do(operation), theirs.do(operation)
        assert comparable(told) == comparable(right), operation
    for kind in KINDS:
        kept, wanted = (plain(world.listed(kind)[1]) for world in (ours, theirs))
        assert kept == wanted


@pytest.mark.timeout(120 if not DEEPER else 36_000)
@settings(max_examples=int(DEEPER or 25), **COMMON)
@given(sequence=sequences(), joins=st.integers(0, 24))
def test_what_a_watcher_has_seen_is_what_a_list_shows(sequence: list[Operation], joins: int, small: Exchange) -> None:
    """One watcher is there from the beginning, one joins in the middle; each begins where a list ended."""
    (world,) = new_worlds(small)
    kinds = sorted({operation.kind for operation in sequence})
    watchers = [Watcher(world, kind) for kind in kinds]
    for number, operation in enumerate(sequence):
        if number == joins:
            watchers += [Watcher(world, kind) for kind in kinds]
        world.do(operation)
    for kind in kinds:
        made = world.do(Operation("POST", kind, body=of(kind, LAST, ENOUGH.get(kind, {}), {})))
        assert made.status == 201, made
    for watcher in watchers:
        assert watcher.store() == world.listed(watcher.kind)[1], watcher.kind


class Watcher:
    """Lists, and follows until the last object comes."""

    def __init__(self, world: World, kind: str) -> None:
        self.kind = kind
        version, self._store = world.listed(kind)
        query = {"watch": "true", "resourceVersion": version}
        self._request = {"method": "GET", "path": world.path(kind), "query": query}
        self._world = world
        self._broken: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def store(self) -> dict[str, Any]:
        self._thread.join(10)
        assert not self._thread.is_alive(), f"the last {self.kind} does not come"
        assert self._broken is None, repr(self._broken)
        return self._store

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException as error:  # noqa: BLE001 -- told by store()
            self._broken = error

    def _follow(self) -> None:
        for event in self._world.exchange.events(self._request):
            item = bare(event["object"])
            name = self._world.ours(item)
            if not name:
                continue
            assert (event["type"] == "ADDED") == (name not in self._store), event
            if event["type"] == "DELETED":
                del self._store[name]
            else:
                self._store[name] = item
            if name == LAST:
                return
