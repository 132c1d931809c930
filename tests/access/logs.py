"""Lines of the access table: one line of a job's log, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.streams import services as streams
from tests import factories
from tests.access import Objects
from tests.factories import World

LINES = {
    ("jobs:log-line", "GET"): "            302  404   200   200  200   200  200  404",
}


def objects(world: World) -> dict[str, Any]:
    job = factories.job(world.scientist, world.place)
    line = streams.LogLine(1, "INFO", 0, None, "hello")
    streams.append(job.topic, streams.LogFrame(streams.Source(0, 1, "pod"), [line]))
    return {"told": job}


ARGS: dict[str, Callable[[Objects], list[Any]]] = {"jobs:log-line": lambda made: [made["told"].pk, 1]}
BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {}
