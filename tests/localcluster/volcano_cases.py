"""Recorded outcomes of the real Volcano, and the small readers that the tests of the stand-in share."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apps.localcluster.volcano.admission import jobs, queues

Object = dict[str, Any]
GPU = "nvidia.com/gpu"

FOLDER = Path(__file__).parents[1] / "cases" / "volcano"
SETUP: Object = json.loads((FOLDER / "00-setup.json").read_text())


def cases(*topics: str) -> Iterator[Object]:
    for topic in topics:
        for file in sorted(FOLDER.glob(f"{topic}*.json")):
            yield from json.loads(file.read_text())


def every_case() -> Iterator[Object]:
    return cases(*(f"{topic:02d}" for topic in range(1, 13)))


def case(wanted: str) -> Object:
    return next(found for found in cases(wanted[:2]) if found["id"] == wanted)


def created(found: Object, kind: str = "Job") -> list[Object]:
    """The objects of a kind that a case makes, in order."""
    steps = (step.get("create") or step.get("server_side_apply") for step in found["objects"])
    return [step for step in steps if step and step["kind"] == kind]


def patched(item: Object, patch: list[Object]) -> Object:
    """An object with a JSON patch of `add` and `replace` below existing parents."""
    out = copy.deepcopy(item)
    for step in patch:
        *parents, last = [part.replace("~1", "/") for part in step["path"].strip("/").split("/")]
        place: Any = out
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if isinstance(place, list):
            place.append(step["value"]) if last == "-" else place.__setitem__(int(last), step["value"])
        else:
            place[last] = step["value"]
    return out


def admitted(job: Object) -> Object:
    """A Job as it is stored: with the webhook's defaults and what the server gives every object."""
    full = patched(job, jobs.defaults(job))
    full["metadata"] |= {"uid": f"uid-{full['metadata']['name']}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return full


def open_queue(name: str = "default", **spec: Any) -> Object:
    queue: Object = {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}}
    return patched(queue, queues.defaults(queue))


def nodes(fleet: str) -> list[Object]:
    """The nodes of a fleet of the recordings, ready."""
    return [
        {
            "metadata": {
                "name": f"{pool['prefix']}-{index:04d}",
                "labels": {"kubernetes.io/hostname": f"{pool['prefix']}-{index:04d}", **pool["labels"]},
            },
            "spec": {"taints": pool.get("taints", [])},
            "status": {"allocatable": pool["capacity"], "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for pool in SETUP["fleets"][fleet]
        for index in range(pool["count"])
    ]


OVERCOMMIT = 1.2


def let_in_at_once(found: Object) -> frozenset[str]:
    """Jobs of a case that are let in at once: with all before them they ask for no more accelerators than the scheduler
    hands out places for, and no queue has limits. Where such a job was seen to wait, the one before it had just been
    placed and counted twice for a moment, as let in and as placed."""
    if any(
        (queue.get("spec") or {}).keys() & {"capability", "deserved", "guarantee"} for queue in created(found, "Queue")
    ):
        return frozenset()
    there = sum(pool["count"] * int(pool["capacity"].get(GPU, 0)) for pool in SETUP["fleets"][found["fleet"]])
    asked, names = 0, set()
    for job in created(found):
        asked += sum(map(_accelerators, job["spec"].get("tasks", [])))
        if asked <= OVERCOMMIT * there:
            names.add(job["metadata"]["name"])
    return frozenset(names)


def _accelerators(task: Object) -> int:
    containers = task.get("template", {}).get("spec", {}).get("containers", [])
    requests = [container.get("resources", {}).get("requests", {}) for container in containers]
    return int(task.get("replicas", 0)) * sum(int(each.get(GPU, 0)) for each in requests)
