"""The cluster's API server is away for a minute, a job a second is accepted meanwhile: how soon after its return they
are in the cluster."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator

from deploy.local.testing import demo
from tests.bench.figure import Figure
from tests.prove.stack import Stack, until

AWAY_SECONDS, JOBS = 60.0, 60
DOCUMENT = {"template": "command", "image": "maas/shell:1", "command": "true", "ranks": 1}


def figures() -> Iterator[Figure]:
    with demo(None, "--port", "8430", "--without", "nodeagent,gateway") as running:
        stack = Stack(running)
        stack.await_all()
        stack.give_room("nlp", JOBS)
        with stack.without_api():
            ids = _accepted(stack)
            back = threading.Thread(target=_first_answer, args=(stack, moment := list[float]()))
            back.start()
        back.join()
        late = _late(stack, ids, moment[0])
    yield Figure("api-back-median", statistics.median(late), "s", None, 10)
    yield Figure("api-back-last", max(late), "s", None, 10)


def _accepted(stack: Stack) -> set[str]:
    start, rest = time.monotonic(), stack.rest()
    ids = set()
    for number in range(JOBS):
        time.sleep(max(0.0, start + number * AWAY_SECONDS / JOBS - time.monotonic()))
        ids.add(rest.submit(DOCUMENT | {"name": f"accepted {number}"}))
    return ids


def _first_answer(stack: Stack, moment: list[float]) -> None:
    until(stack.cluster.answers, 60, what="the API server answers")
    moment.append(time.monotonic())


def _late(stack: Stack, ids: set[str], since: float) -> list[float]:
    """Seconds after `since` at which each job's object was first seen."""
    late: dict[str, float] = {}

    def all_there() -> bool:
        items = stack.cluster.items(stack.cluster.JOBS)
        there = {item["metadata"]["labels"]["maas.portal/job"] for item in items} & ids
        for job_id in there - late.keys():
            late[job_id] = time.monotonic() - since
        return late.keys() == ids

    until(all_there, 300, what="all have gone in")
    return list(late.values())
