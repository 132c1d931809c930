"""Who may read a job's curves, and who sends points to them: whoever may stop the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.access import Objects
from tests.factories import World

#                                              anon nobody view  sci  adm   aud  oper stranger
LINES: dict[tuple[str, str], str] = {
    ("api:job-points", "POST"): "              401  404   403   200  200   403  200  404",
    ("api:job-points-csv", "GET"): "           401  404   200   200  200   200  200  404",
    ("api:job-series", "GET"): "               401  404   200   200  200   200  200  404",
}


def objects(world: World) -> dict[str, Any]:
    return {}


ARGS: dict[str, Callable[[Objects], list[Any]]] = {}


def _points(_made: Objects) -> dict[str, Any]:
    return {"points": [{"step": 3, "values": {"loss": 2.5}}]}


BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {"api:job-points": _points}
