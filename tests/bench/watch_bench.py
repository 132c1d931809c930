"""The watch process's reader beside the official client (paged list, `watch.Watch`, models), on the same replayed bytes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.door import Door
from tests.bench.figure import Figure
from tests.bench.replaying import replaying

ROUNDS = 3
# The reader is part of a Django project; it asks nothing of these here.
SETTINGS = {"MAAS_SECRET_KEY": "bench", "DATABASE_URL": "postgres://unused/unused", "REDIS_URL": "redis://unused"}


def figures() -> Iterator[Figure]:
    taken: dict[tuple[str, str], list[dict[str, float]]] = {}
    with replaying() as server:
        for _ in range(ROUNDS):
            for what in ("sync", "events", "cpu"):
                for arm in ("ours", "stock"):
                    taken.setdefault((arm, what), []).append(run(arm, what, Door(server)))

    def median(arm: str, what: str, name: str) -> float:
        return statistics.median(one[name] for one in taken[arm, what])

    yield Figure("watch-sync", median("ours", "sync", "ms"), "ms", None, 400)
    yield Figure("watch-sync-beside", median("ours", "sync", "ms"), "ms", median("stock", "sync", "ms"), 0.1)
    yield Figure("watch-memory", median("ours", "sync", "mb"), "MB", None, 30)
    yield Figure("watch-memory-beside", median("ours", "sync", "mb"), "MB", median("stock", "sync", "mb"), 0.1)
    yield Figure("watch-event-p50", median("ours", "events", "p50"), "ms", median("stock", "events", "p50"), 0.1)
    yield Figure("watch-event", median("ours", "events", "p99"), "ms", None, 1.0)
    yield Figure(
        "watch-event-cpu", median("ours", "cpu", "cpu") * 1000, "ms", median("stock", "cpu", "cpu") * 1000, 0.01
    )


def run(arm: str, what: str, door: Door) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.watching", arm, what, door.dump()]
    result = subprocess.run(command, env={**os.environ, **SETTINGS}, capture_output=True, text=True, check=True)
    return {name: float(value) for name, value in json.loads(result.stdout).items()}
