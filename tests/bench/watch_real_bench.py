"""The same beside the official client on kube-apiserver itself: 5,000 pods, 1,000 Volcano jobs, and patches of pods."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from deploy.testbed import Parts, control_plane
from tests.bench.door import Door, Request
from tests.bench.figure import Figure
from tests.bench.replaying import JOBS, PODS, job, pod
from tests.bench.watch_bench import SETTINGS, run
from tests.bench.watching import RATE, SECONDS, STAMPED

ROUNDS, WRITERS = 3, 12
NAMESPACE = "/api/v1/namespaces/tenant-nlp"


def figures() -> Iterator[Figure]:
    bare = Parts(controllers=False, scheduler=False, fleet=None, crds=("volcano",))
    taken: dict[tuple[str, str], list[dict[str, float]]] = {}
    with control_plane(None, bare) as plane, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as writer:
        door = Door(plane.server, plane.token, plane.ca_pem)
        writer.submit(fill, door).result()
        for _ in range(ROUNDS):
            for arm in ("ours", "stock"):
                taken.setdefault((arm, "sync"), []).append(run(arm, "sync", door))
                taken.setdefault((arm, "changes"), []).append(_changes(arm, door, writer))

    def median(arm: str, what: str, name: str) -> float:
        return statistics.median(one[name] for one in taken[arm, what])

    yield Figure("watch-real-sync", median("ours", "sync", "ms"), "ms", None, 400)
    yield Figure("watch-real-sync-beside", median("ours", "sync", "ms"), "ms", median("stock", "sync", "ms"), 0.1)
    yield Figure("watch-real-memory", median("ours", "sync", "mb"), "MB", None, 30)
    yield Figure("watch-real-memory-beside", median("ours", "sync", "mb"), "MB", median("stock", "sync", "mb"), 0.1)
    for name in ("p50", "p99", "between"):
        unit = "ms" if name != "between" else "ms between two"
        yield Figure(f"watch-real-{name}", median("ours", "changes", name), unit, median("stock", "changes", name), 1.0)
    cpu = [median(arm, "changes", "cpu") * 1000 for arm in ("ours", "stock")]
    yield Figure("watch-real-cpu", cpu[0], "ms", cpu[1], 0.01)


def _changes(arm: str, door: Door, writer: ProcessPoolExecutor) -> dict[str, float]:
    """How late each of the patches reached the cache of this arm, the CPU that took, and ms between two of them."""
    command = [sys.executable, "-m", "tests.bench.watching", arm, "changes", door.dump()]
    with subprocess.Popen(command, env={**os.environ, **SETTINGS}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)  # until the watch is open; what comes before is told all the same
        took = writer.submit(patch, door).result()
        found = json.loads(process.stdout.readline())
    return {**found, "between": took * 1000 / (RATE * SECONDS)}


def fill(door: Door) -> None:
    door.ask([("POST", "/api/v1/namespaces", {"metadata": {"name": "tenant-nlp"}})])
    door.ask([("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})])
    pods = [("POST", f"{NAMESPACE}/pods", _new(pod(number, 0))) for number in range(PODS)]
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/tenant-nlp/jobs"
    jobs = [("POST", path, _new(job(number))) for number in range(JOBS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda first: door.ask((pods + jobs)[first::WRITERS]), range(WRITERS)))


def _new(item: dict[str, Any]) -> dict[str, Any]:
    """As one creates it."""
    given = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences")
    metadata = {key: value for key, value in item["metadata"].items() if key not in given}
    return {**item, "metadata": metadata, "status": {}}


def patch(door: Door) -> float:
    """Patch one pod after the other at a steady rate, each with the time of it. Returns the seconds it took."""
    start = time.monotonic() + 0.2

    def due(first: int) -> Iterator[Request]:
        for number in range(first, RATE * SECONDS, WRITERS):
            name = pod(number, 0)["metadata"]["name"]
            time.sleep(max(0.0, start + number / RATE - time.monotonic()))
            body = {"metadata": {"labels": {STAMPED: f"{time.monotonic():.6f}"}}}
            yield "PATCH", f"{NAMESPACE}/pods/{name}", body

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda first: door.ask(due(first)), range(WRITERS)))
    return time.monotonic() - start
