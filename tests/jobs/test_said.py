"""What a cluster says of jobs in its events: dear to read in a crowded namespace, so read for all who look meanwhile."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.db import connection

from apps.adapters.kubernetes import KubeApi, objects
from apps.clusters.services.connect import endpoint
from apps.jobs.reconcile.said import KEPT_TIMES, SLOW, Said
from tests.factories import World


class Server(KubeApi):
    """The test's API server with lists that take `takes` seconds of the test's own time."""

    now = takes = 0.0
    lists = 0

    def list(self, path: str, label_selector: str = "", field_selector: str = "") -> list[dict[str, Any]]:
        found = super().list(path, label_selector, field_selector)
        self.lists += 1
        self.now += self.takes
        return found


class Namespace:
    """Many tests' events are in it, so each names its own jobs."""

    def __init__(self, world: World) -> None:
        self.name, self.mark = world.place.namespace, os.urandom(4).hex()
        self.api = Server(endpoint(world.place.cluster))
        self.said = Said(lambda: self.api.now)

    def say(self, kind: str, about: str, message: str) -> None:
        body = {
            "metadata": {"generateName": "said-", "namespace": self.name}, "message": message,
            "involvedObject": {"kind": kind, "name": f"{about}-{self.mark}", "namespace": self.name},
        }  # fmt: skip
        self.api.create(objects.path(objects.EVENT, self.name), body)

    def heard(self, *names: str) -> list[object]:
        own = [f"{name}-{self.mark}" for name in names]
        return [event["message"] for event in self.said.of(self.api, self.name, own)]


@pytest.fixture(autouse=True)
def outside_calls() -> Any:
    """A test's own transaction is not one the code under test has opened."""
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


@pytest.fixture
def namespace(connected: World) -> Namespace:
    return Namespace(connected)


def test_jobs_and_groups_are_heard_of_by_name_and_pods_are_not(namespace: Namespace) -> None:
    namespace.say("Job", "j-1", "of the job")
    namespace.say("PodGroup", "g-1", "of its group")
    namespace.say("PodGroup", "g-2", "of another")
    namespace.say("Pod", "j-1", "of a pod")
    assert namespace.heard("g-1", "j-1") == ["of its group", "of the job"]
    assert namespace.heard("g-3") == []


def test_what_is_quickly_read_is_read_anew_for_each(namespace: Namespace) -> None:
    namespace.api.takes = SLOW / 2
    assert namespace.heard("j-1") == []
    namespace.say("Job", "j-1", "news")
    assert namespace.heard("j-1") == ["news"]


def test_what_is_slowly_read_is_read_once_for_all_meanwhile(namespace: Namespace) -> None:
    namespace.api.takes = SLOW
    namespace.say("Job", "j-1", "first")
    assert namespace.heard("j-1") == ["first"]
    namespace.say("Job", "j-2", "second")
    for _ in range(20):
        assert namespace.heard("j-1") == ["first"]
        assert namespace.heard("j-2") == []
    assert namespace.api.lists == 1
    namespace.api.now += KEPT_TIMES * SLOW
    assert namespace.heard("j-2") == ["second"]
    assert namespace.api.lists == 2


def test_a_list_that_became_quick_is_kept_no_longer(namespace: Namespace) -> None:
    namespace.api.takes = SLOW
    assert namespace.heard("j-1") == []
    namespace.api.now += KEPT_TIMES * SLOW
    namespace.api.takes = 0
    assert namespace.heard("j-1") == []
    namespace.say("Job", "j-1", "news")
    assert namespace.heard("j-1") == ["news"]
