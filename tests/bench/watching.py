"""One arm of the watch bench, in a process of its own: `python -m tests.bench.watching ARM WHAT SERVER`.

ARM is `ours` or `stock` (the official client: list, watch, models); WHAT is `sync`, `events` (how late each reaches the
cache) or `cpu` (of 2,000 events at once); each arm has synchronized and holds its cache. Prints a JSON object.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes import watch as stock_watch

from apps.adapters.kubernetes import Endpoint
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters.watch import projections
from apps.clusters.watch.reflect import Reflector
from tests.bench.replaying import JOBS, JOBS_PATH, PODS, PODS_PATH

EVENTS, RATE, SECONDS = 2_000, 500, 6


def resident() -> float:
    """Memory of this process in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def reader(server: str) -> StreamReader:
    return StreamReader(Endpoint(server, None, lambda fresh=False: "token"))


async def our_sync(server: str, kept: list[Reflector[Any]]) -> dict[str, float]:
    before, stream = resident(), reader(server)
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


async def our_events(server: str, rate: int, count: int) -> dict[str, float]:
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

    stream = reader(server)
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
    late.sort()
    return {"p50": late[len(late) // 2] * 1000, "p99": late[len(late) * 99 // 100] * 1000, "cpu": used}


def api(server: str) -> client.ApiClient:
    configuration = client.Configuration(host=server)
    return client.ApiClient(configuration)


def stock_sync(server: str, pods: list[Any]) -> dict[str, float]:
    before, token = resident(), None
    start = time.perf_counter()
    while True:
        page = client.CoreV1Api(api(server)).list_pod_for_all_namespaces(limit=500, _continue=token)
        pods += page.items
        token = page.metadata._continue
        if not token:
            break
    custom, jobs, token = client.CustomObjectsApi(api(server)), [], ""
    while True:
        part = custom.list_cluster_custom_object("batch.volcano.sh", "v1alpha1", "jobs", limit=500, _continue=token)
        jobs += part["items"]
        token = part["metadata"].get("continue", "")
        if not token:
            break
    taken = time.perf_counter() - start
    assert (len(pods), len(jobs)) == (PODS, JOBS)
    return {"ms": taken * 1000, "mb": resident() - before}


def stock_events(server: str, rate: int, count: int) -> dict[str, float]:
    late: list[float] = []
    begun = None
    stream = stock_watch.Watch().stream(
        client.CoreV1Api(api(server)).list_pod_for_all_namespaces, resource_version="1",
        label_selector=f"rate={rate},count={count}",
    )  # fmt: skip
    for event in stream:
        begun = begun or time.process_time()
        late.append(time.monotonic() - float(event["object"].metadata.uid) if rate else 0.0)
        if len(late) == count:
            break
    used = time.process_time() - begun
    late.sort()
    return {"p50": late[len(late) // 2] * 1000, "p99": late[len(late) * 99 // 100] * 1000, "cpu": used}


async def ours(what: str, server: str, rate: int, count: int) -> dict[str, float]:
    kept: list[Reflector[Any]] = []
    found = await our_sync(server, kept)
    return found if what == "sync" else await our_events(server, rate, count)


def stock(what: str, server: str, rate: int, count: int) -> dict[str, float]:
    kept: list[Any] = []
    found = stock_sync(server, kept)
    return found if what == "sync" else stock_events(server, rate, count)


def main(arm: str, what: str, server: str) -> None:
    rate, count = (RATE, RATE * SECONDS) if what == "events" else (0, EVENTS)
    found = asyncio.run(ours(what, server, rate, count)) if arm == "ours" else stock(what, server, rate, count)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
