"""One arm of the watch bench, in a process of its own: `python -m tests.bench.watching ARM WHAT DOOR`.

ARM is `ours` or `stock` (the official client: list, watch, models); WHAT is `sync`, `events` (how late each reaches the
cache), `cpu` (of 2,000 events at once), or `changes`: those that somebody makes once this process has said that it is
ready, lateness and CPU in one. Each arm has synchronized and holds its cache. Prints a JSON object.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes import watch as stock_watch

from apps.adapters.kubernetes import Endpoint
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters.watch import projections
from apps.clusters.watch.reflect import Reflector
from tests.bench.door import Door
from tests.bench.replaying import JOBS, JOBS_PATH, PODS, PODS_PATH

EVENTS, RATE, SECONDS = 2_000, 500, 6
STAMPED = "maas.portal/stamp"
"""The label that says when a change was made (`time.monotonic`)."""


def resident() -> float:
    """Memory of this process in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def figures(late: list[float], used: float) -> dict[str, float]:
    late.sort()
    return {"p50": late[len(late) // 2] * 1000, "p99": late[len(late) * 99 // 100] * 1000, "cpu": used}


def reader(door: Door) -> StreamReader:
    return StreamReader(Endpoint(door.server, door.authority or None, lambda fresh=False: door.token))


async def our_sync(door: Door, kept: list[Reflector[Any]]) -> dict[str, float]:
    before, stream = resident(), reader(door)
    start = time.perf_counter()
    for path, decoder in ((PODS_PATH, projections.PODS), (JOBS_PATH, projections.OBJECTS)):
        kept.append(Reflector(stream, path, decoder, lambda _old, _new: None, lambda: None))
    tasks = [asyncio.create_task(one.run()) for one in kept]
    for one in kept:
        await one.synced.wait()
    taken = time.perf_counter() - start
    assert [len(one.store) for one in kept] == [PODS, JOBS]
    added = resident() - before
    for task in tasks:
        task.cancel()
    await stream.close()
    return {"ms": taken * 1000, "mb": added}


async def our_events(door: Door, rate: int, count: int) -> dict[str, float]:
    late: list[float] = []
    done = asyncio.Event()
    begun: list[float] = []

    def changed(_old: projections.Pod | None, new: projections.Pod | None) -> None:
        if not begun:
            begun.append(time.process_time())
        if rate and new:
            late.append(time.monotonic() - float(new.metadata.uid))
        else:
            late.append(0.0)
        if len(late) == count:
            done.set()

    stream = reader(door)
    one = Reflector(
        stream,
        PODS_PATH,
        projections.PODS,
        changed,
        lambda: None,
        label_selector=f"rate={rate},count={count}",
        keep=False,
    )
    task = asyncio.create_task(one.run())
    await asyncio.wait_for(done.wait(), 120)
    used = time.process_time() - begun[0]
    task.cancel()
    await stream.close()
    return figures(late, used)


async def our_changes(door: Door) -> dict[str, float]:
    late: list[float] = []
    done = asyncio.Event()

    def changed(_old: projections.Pod | None, new: projections.Pod | None) -> None:
        if new and one.synced.is_set():
            late.append(time.monotonic() - float(new.metadata.label(STAMPED)))
            if len(late) == RATE * SECONDS:
                done.set()

    stream = reader(door)
    one = Reflector(stream, PODS_PATH, projections.PODS, changed, lambda: None)
    task = asyncio.create_task(one.run())
    await one.synced.wait()
    print("ready", flush=True)
    begun = time.process_time()
    await asyncio.wait_for(done.wait(), 300)
    used = time.process_time() - begun
    task.cancel()
    await stream.close()
    return figures(late, used)


def api(door: Door) -> client.ApiClient:
    configuration = client.Configuration(host=door.server)
    if door.authority:
        with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
            file.write(door.authority)
        configuration.ssl_ca_cert = file.name
    return client.ApiClient(configuration, "Authorization", f"Bearer {door.token}")


def stock_pods(door: Door, pods: list[Any]) -> str:
    """The version to watch from."""
    core, token = client.CoreV1Api(api(door)), None
    while True:
        page = core.list_pod_for_all_namespaces(limit=500, _continue=token)
        pods += page.items
        token = page.metadata._continue
        if not token:
            return str(page.metadata.resource_version)


def stock_sync(door: Door, pods: list[Any]) -> dict[str, float]:
    before = resident()
    start = time.perf_counter()
    stock_pods(door, pods)
    custom, jobs, token = client.CustomObjectsApi(api(door)), [], ""
    while True:
        part = custom.list_cluster_custom_object("batch.volcano.sh", "v1alpha1", "jobs", limit=500, _continue=token)
        jobs += part["items"]
        token = part["metadata"].get("continue", "")
        if not token:
            break
    taken = time.perf_counter() - start
    assert (len(pods), len(jobs)) == (PODS, JOBS)
    return {"ms": taken * 1000, "mb": resident() - before}


def stock_events(door: Door, rate: int, count: int) -> dict[str, float]:
    late: list[float] = []
    begun = None
    stream = stock_watch.Watch().stream(
        client.CoreV1Api(api(door)).list_pod_for_all_namespaces, resource_version="1",
        label_selector=f"rate={rate},count={count}",
    )  # fmt: skip
    for event in stream:
        begun = begun or time.process_time()
        late.append(time.monotonic() - float(event["object"].metadata.uid) if rate else 0.0)
        if len(late) == count:
            break
    return figures(late, time.process_time() - begun)


def stock_changes(door: Door) -> dict[str, float]:
    pods: list[Any] = []
    late: list[float] = []
    version = stock_pods(door, pods)
    print("ready", flush=True)
    begun = time.process_time()
    stream = stock_watch.Watch().stream(
        client.CoreV1Api(api(door)).list_pod_for_all_namespaces, resource_version=version
    )
    for event in stream:
        late.append(time.monotonic() - float(event["object"].metadata.labels[STAMPED]))
        if len(late) == RATE * SECONDS:
            break
    return figures(late, time.process_time() - begun)


async def ours(what: str, door: Door, rate: int, count: int) -> dict[str, float]:
    if what == "changes":
        return await our_changes(door)
    kept: list[Reflector[Any]] = []
    found = await our_sync(door, kept)
    return found if what == "sync" else await our_events(door, rate, count)


def stock(what: str, door: Door, rate: int, count: int) -> dict[str, float]:
    if what == "changes":
        return stock_changes(door)
    kept: list[Any] = []
    found = stock_sync(door, kept)
    return found if what == "sync" else stock_events(door, rate, count)


def main(arm: str, what: str, opened: str) -> None:
    door = Door.load(opened)
    rate, count = (RATE, RATE * SECONDS) if what == "events" else (0, EVENTS)
    found = asyncio.run(ours(what, door, rate, count)) if arm == "ours" else stock(what, door, rate, count)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
