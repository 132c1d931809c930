"""The loss watch of a job that is the scientist's."""

from __future__ import annotations

from typing import Any

from tests import factories
from tests.access import Objects
from tests.factories import World

LINES: dict[tuple[str, str], str] = {
    #                                   anon nobody view sci  adm  aud  oper stranger
    ("jobs:loss-watch", "POST"): "      302  404   403  302  302  403  302  404",
    ("jobs:loss-dismiss", "POST"): "    302  404   403  302  302  403  302  404",
    ("jobs:loss-again", "POST"): "      302  404   403  302  302  403  403  404",
    ("api:job-causes", "GET"): "        401  404   200  200  200  200  200  404",
    ("api:job-watch", "GET"): "         401  404   200  200  200  200  200  404",
    ("api:job-watch", "PATCH"): "       401  404   403  200  200  403  200  404",
    ("api:job-watch-dismiss", "POST"): "401  404   403  200  200  403  200  404",
}  # fmt: skip


def objects(world: World) -> dict[str, Any]:
    return {"watched": factories.job(world.scientist, world.place, document={"watch_actions": ["mark"]})}


def _job(made: Objects) -> list[Any]:
    return [made["watched"].pk]


ARGS = dict.fromkeys((route for route, _method in LINES), _job)
BODIES: dict[str, Any] = {"jobs:loss-watch": lambda _made: {"watch": "spike"}}
