"""Whatever happens between the API server and the watch: at the end, what is kept is what is there."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.adapters.kubernetes import Endpoint, stream
from apps.adapters.kubernetes.stream import Listed, StreamReader
from apps.clusters.watch import projections, reflect
from apps.clusters.watch.reflect import Key, Reflector
from deploy.testbed import SERVER_ONLY, control_plane
from tests.clusters.faultproxy import FaultProxy
from tests.clusters.smallcluster import SmallCluster

NAMESPACE = "/api/v1/namespaces/default/configmaps"
EVERYWHERE = "/api/v1/configmaps"
LABEL = "storm"
OBJECTS, WRITERS = 120, 8
LONG = int(os.environ.get("MAAS_STORM_EVENTS", "20000"))
"""Events of the long storms; by hand 100000."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    one = SmallCluster(tmp_path_factory.mktemp("cluster")).start()
    try:
        yield one.endpoint
    finally:
        one.stop()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same times in the same order, but short."""
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 3.0)
    monkeypatch.setattr(stream, "READ_SECONDS", 3.0)
    monkeypatch.setattr(stream, "WATCH_SECONDS", 1)
    monkeypatch.setattr(reflect, "LONGEST_PAUSE", 0.5)
    monkeypatch.setattr(reflect, "LATE_SECONDS", 0.5)


class Told(Reflector[Listed]):
    """A reflector whose listener keeps its own account of what it was told."""

    def __init__(self, reader: StreamReader) -> None:
        super().__init__(reader, EVERYWHERE, projections.OBJECTS, self._hear, lambda: None, label_selector=LABEL)
        self.account: dict[Key, str] = {}

    def _hear(self, old: Listed | None, new: Listed | None) -> None:
        item = new or old
        if item is None:
            return
        key = item.metadata.namespace, item.metadata.name
        if new is None:
            self.account.pop(key, None)
        else:
            self.account[key] = new.metadata.resourceVersion

    @property
    def kept(self) -> dict[Key, str]:
        return {key: item.metadata.resourceVersion for key, item in self.store.items()}


@asynccontextmanager
async def running(proxy: FaultProxy, count: int) -> AsyncIterator[list[Told]]:
    reader = StreamReader(proxy.endpoint)
    reflectors = [Told(reader) for _ in range(count)]
    tasks = [asyncio.create_task(one.run()) for one in reflectors]
    try:
        yield reflectors
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await reader.close()


def client(endpoint: Endpoint) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {endpoint.token_source()}"}
    return httpx.AsyncClient(
        base_url=endpoint.server, verify=endpoint.tls() or False, headers=headers, timeout=30, trust_env=False
    )


async def write(http: httpx.AsyncClient, dice: random.Random, count: int) -> None:
    """Objects come, change and go under few names, so that a name often means another object than a moment ago."""

    async def one() -> None:
        name = f"c-{dice.randrange(OBJECTS)}"
        metadata = {"name": name, "labels": {LABEL: "1"}}
        if dice.random() < 0.25:
            await http.delete(f"{NAMESPACE}/{name}")
            return
        answer = await http.patch(
            f"{NAMESPACE}/{name}", json={"data": {"n": str(dice.random())}},
            headers={"Content-Type": "application/merge-patch+json"},
        )  # fmt: skip
        if answer.status_code == 404:
            await http.post(NAMESPACE, json={"metadata": metadata})

    async def some(number: int) -> None:
        for _ in range(number):
            await one()

    await asyncio.gather(*(some(count // WRITERS) for _ in range(WRITERS)))


async def truth(http: httpx.AsyncClient) -> dict[Key, str]:
    items: list[dict[str, Any]] = (await http.get(NAMESPACE, params={"labelSelector": LABEL})).json()["items"]
    return {("default", item["metadata"]["name"]): item["metadata"]["resourceVersion"] for item in items}


async def storm(endpoint: Endpoint, seed: int, events: int, reflectors: int) -> FaultProxy:
    """Write until so many events have gone through the proxy, make peace, and compare."""
    dice = random.Random(seed)
    async with FaultProxy(endpoint, dice) as proxy, client(endpoint) as http, running(proxy, reflectors) as watching:
        while proxy.events < events:
            await write(http, dice, 400)
        proxy.calm()
        expected = await truth(http)
        assert expected
        async with asyncio.timeout(60):
            while any(one.kept != expected for one in watching):
                await asyncio.sleep(0.1)
        assert all(one.account == expected for one in watching), "who listens was told another story"
        assert [await one.compare() for one in watching] == [0] * len(watching)
        return proxy


FAULTS = {
    "delay", "blackhole", "reset", "busy", "broken", "expired", "cut in a line", "blackhole in a stream",
    "expired in a stream", "late", "doubled", "swapped",
}  # fmt: skip


async def test_after_a_storm_the_cache_is_the_truth(small: Endpoint) -> None:
    proxy = await storm(small, seed=1, events=5_000, reflectors=8)
    assert sum(proxy.happened.values()) > 50


@pytest.mark.prove
@pytest.mark.timeout(900)
async def test_after_a_long_storm_the_cache_is_the_truth(small: Endpoint) -> None:
    proxy = await storm(small, seed=2, events=LONG, reflectors=24)
    assert set(proxy.happened) == FAULTS


@pytest.mark.prove
@pytest.mark.timeout(900)
async def test_the_same_on_the_real_control_plane(tmp_path: Path) -> None:
    with control_plane(tmp_path, SERVER_ONLY) as plane:
        token = plane.token
        endpoint = Endpoint(plane.server, plane.ca_pem, lambda fresh=False: token)
        proxy = await storm(endpoint, seed=3, events=LONG, reflectors=24)
    assert set(proxy.happened) == FAULTS
