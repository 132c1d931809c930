"""The small cluster's API server beside kube-apiserver: 5,000 pods listed, and 500 events a second to 20 watchers."""

from __future__ import annotations

import json
import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from deploy.local.memory import pss
from deploy.testbed import Parts, control_plane
from tests.bench.door import Door
from tests.bench.figure import Figure
from tests.small_cluster import small_cluster

PODS, PAGE, ROUNDS = 5000, 500, 5
WATCHERS, WRITERS, RATE, SECONDS = 20, 12, 500, 6
NAMESPACE = "/api/v1/namespaces/default"
POD = {
    "spec": {
        "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "schedulerName": "nobody",
        "automountServiceAccountToken": False,
    }
}


@dataclass
class Arm:
    door: Door
    http: httpx.Client
    process: psutil.Process
    taken: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        self.taken.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.taken[name])

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self.http.request(method, path, json=body)
        while answer.status_code == 429:
            time.sleep(0.1)
            answer = self.http.request(method, path, json=body)
        answer.raise_for_status()
        return answer


def figures() -> Iterator[Figure]:
    bare = Parts(controllers=False, scheduler=False, fleet=None, crds=())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        small = stack.enter_context(small_cluster(folder / "small"))
        real = stack.enter_context(control_plane(folder / "real", bare))
        server = real.processes.running["kube-apiserver"][1].pid
        ours = stack.enter_context(_arm(Door(small.server, small.token, small.ca_pem), small.running["apiserver"].pid))
        theirs = stack.enter_context(_arm(Door(real.server, real.token, real.ca_pem), server))
        for arm in (ours, theirs):
            _fill(arm)
        for _ in range(ROUNDS):
            for arm in (ours, theirs):
                _list(arm)
        for arm in (ours, theirs):
            _follow(arm)
    for name, unit, goal in (
        ("pods-list", "ms", 3.0),
        ("pods-list-paged", "ms", 3.0),
        ("pods-list-size", "MB", 1.1),
        ("watch-p50", "ms", 5.0),
        ("watch-p99", "ms", 5.0),
        ("watch-events", "ms between two", 1.2),
        ("watch-cpu", "% of a core", 3.0),
        ("server-memory", "MB PSS", 1.0),
    ):
        yield Figure(name, ours.median(name), unit, theirs.median(name), goal)


@contextmanager
def _arm(door: Door, pid: int) -> Iterator[Arm]:
    trust = ssl.create_default_context(cadata=door.authority)
    headers = {"Authorization": f"Bearer {door.token}", "Accept-Encoding": "identity"}
    with httpx.Client(base_url=door.server, headers=headers, verify=trust, timeout=60, trust_env=False) as client:
        yield Arm(door, client, psutil.Process(pid))


def _fill(arm: Arm) -> None:
    account = {"metadata": {"name": "default"}}
    arm.http.post(f"{NAMESPACE}/serviceaccounts", json=account)  # where no controller makes it
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: arm.ask("POST", f"{NAMESPACE}/pods", POD | _meta(f"p-{n}")), range(PODS)))


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "bench"}, **more}}


def _list(arm: Arm) -> None:
    start = time.perf_counter()
    answer = arm.ask("GET", f"{NAMESPACE}/pods")
    arm.note("pods-list", (time.perf_counter() - start) * 1000)
    assert len(answer.json()["items"]) == PODS
    arm.note("pods-list-size", len(answer.content) / 1e6)
    start, token = time.perf_counter(), ""
    while True:
        page = arm.ask("GET", f"{NAMESPACE}/pods?limit={PAGE}&continue={token}")
        token = page.json()["metadata"].get("continue", "")
        if not token:
            break
    arm.note("pods-list-paged", (time.perf_counter() - start) * 1000)


def _follow(arm: Arm) -> None:
    """ConfigMaps are written at a steady rate, each with the time of its writing; watchers say how late it came.

    Writers and watchers have a process each, so that none waits for the other's interpreter.
    """
    version = arm.ask("GET", f"{NAMESPACE}/configmaps").json()["metadata"]["resourceVersion"]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        watching = pool.submit(_watch_all, arm.door, version)
        time.sleep(2)
        before = sum(arm.process.cpu_times()[:2])
        took = pool.submit(_write_all, arm.door).result()
        arm.note("watch-cpu", (sum(arm.process.cpu_times()[:2]) - before) / took * 100)
        arm.ask("POST", f"{NAMESPACE}/configmaps", _meta("last") | {"data": {"at": "last"}})
        delays = sorted(watching.result())
    assert len(delays) == WATCHERS * RATE * SECONDS
    arm.note("watch-events", took * 1000 / (RATE * SECONDS))
    arm.note("watch-p50", delays[len(delays) // 2] * 1000)
    arm.note("watch-p99", delays[len(delays) * 99 // 100] * 1000)
    arm.note("server-memory", pss(arm.process.pid) / 1e6)


def _write_all(door: Door) -> float:
    """Returns the seconds it took."""
    start = time.monotonic() + 0.2

    def write(first: int) -> None:
        connection = door.connect()
        for number in range(first, RATE * SECONDS, WRITERS):
            time.sleep(max(0.0, start + number / RATE - time.monotonic()))
            body = json.dumps(_meta(f"c-{number}") | {"data": {"at": repr(time.monotonic())}})
            connection.request("POST", f"{NAMESPACE}/configmaps", body, door.headers)
            answer = connection.getresponse()
            if answer.status != 201:
                raise RuntimeError(answer.read().decode())
            answer.read()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    return time.monotonic() - start


def _watch_all(door: Door, version: str) -> list[float]:
    def watch(_number: int) -> list[float]:
        delays: list[float] = []
        connection = door.connect()
        connection.request("GET", f"{NAMESPACE}/configmaps?watch=true&resourceVersion={version}", headers=door.headers)
        with connection.getresponse() as answer:
            while True:
                at = answer.readline().partition(b'"at":"')[2].partition(b'"')[0]
                if at == b"last":
                    return delays
                delays.append(time.monotonic() - float(at))

    with ThreadPoolExecutor(WATCHERS) as pool:
        return [delay for delays in pool.map(watch, range(WATCHERS)) for delay in delays]
