"""A cluster's Prometheus, which operators alone enter, and what it tells of the scientist's job."""

from __future__ import annotations

from typing import Any

from tests import factories
from tests.access import Objects
from tests.factories import World

LINES: dict[tuple[str, str], str] = {
    #                                   anon nobody view sci  adm  aud  oper stranger
    ("clusters:source", "GET"): "       302  404   403  403  403  403  200  403",
    ("clusters:source", "POST"): "      302  404   403  403  403  403  422  403",
    ("clusters:source-check", "POST"): "302  404   403  403  403  403  302  403",
    ("clusters:source-remove", "POST"): "302 404   403  403  403  403  302  403",
    ("api:cluster-source", "GET"): "    401  403   403  403  403  403  200  403",
    ("api:cluster-source", "PUT"): "    401  403   403  403  403  403  400  403",
    ("api:cluster-source", "DELETE"): " 401  403   403  403  403  403  204  403",
    ("jobs:event-file", "POST"): "      302  404   403  302  302  403  302  404",
    ("api:job-events", "GET"): "        401  404   200   200  200   200  200  404",
    ("jobs:board", "POST"): "           302  404   403  302  302  403  302  404",
    ("jobs:board-end", "POST"): "       302  404   403  302  302  403  302  404",
    ("jobs:board-enter", "GET"): "      302  404   302  302  302  302  302  404",
    ("jobs:gateway-enter", "GET"): "    403  403   403  403  403  403  403  403",
    ("api:job-board", "GET"): "         401  404   200  200  200  200  200  404",
    ("api:job-board", "POST"): "        401  404   403  409  409  403  409  404",
    ("api:job-board", "DELETE"): "      401  404   403  204  204  403  204  404",
    ("jobs:event-door", "GET"): "       401  401   401   401  401   401  401  401",
    ("jobs:event-door", "PUT"): "       401  401   401   401  401   401  401  401",
    ("jobs:event-door", "POST"): "      401  401   401   401  401   401  401  401",
    ("api:job-events", "POST"): "       401  404   403  415  415  403  415  404",
    ("api:job-gpus", "GET"): "          401  404   200  200  200  200  200  404",
}


def objects(world: World) -> dict[str, Any]:
    return {"measured": factories.job(world.scientist, world.place), "sourced": world.place.cluster}


def _source(made: Objects) -> list[Any]:
    return [made["sourced"].slug, "prometheus"]


def _job(made: Objects) -> list[Any]:
    return [made["measured"].pk]


ARGS = {route: _job if "job" in route else _source for route, _method in LINES if route != "jobs:gateway-enter"}
BODIES: dict[str, Any] = {"clusters:source": lambda _made: {"url": "prometheus"}}
