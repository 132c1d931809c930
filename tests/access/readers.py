"""Who may do what with the readers of logs: everybody with a role looks and tries, operators keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.jobs.models import LogPattern
from tests.access import Objects
from tests.factories import World

#                                              anon nobody view  sci  adm   aud  oper stranger
LOOK = "                                       302  403   200   200  200   200  200  200"
KEEP = "                                       302  403   403   403  403   403  200  403"
LINES: dict[tuple[str, str], str] = {
    ("readers:list", "GET"): LOOK,
    ("readers:try", "POST"): LOOK,
    ("readers:new", "GET"): KEEP,
    ("readers:new", "POST"): "                 302  403   403   403  403   403  302  403",
    ("readers:edit", "GET"): KEEP,
    ("readers:edit", "POST"): "                302  403   403   403  403   403  302  403",
    ("readers:remove", "POST"): "              302  403   403   403  403   403  302  403",
    ("api:log-readers", "GET"): "              401  403   200   200  200   200  200  200",
    ("api:log-readers", "POST"): "             401  403   403   403  403   403  201  403",
    ("api:log-readers-try", "POST"): "         401  403   200   200  200   200  200  200",
    ("api:log-reader", "PUT"): "               401  403   403   403  403   403  400  403",
    ("api:log-reader", "DELETE"): "            401  403   403   403  403   403  204  403",
}

PATTERN = r"at (?P<step>\d+): (?P<loss>\S+)"


def objects(_world: World) -> dict[str, Any]:
    return {"log_reader": LogPattern.objects.create(name="Known", pattern=PATTERN)}


def _reader(made: Objects) -> list[Any]:
    return [made["log_reader"].pk]


ARGS: dict[str, Callable[[Objects], list[Any]]] = {
    "readers:edit": _reader, "readers:remove": _reader, "api:log-reader": _reader,
}  # fmt: skip


def _body(_made: Objects) -> dict[str, Any]:
    return {"name": "Ours", "pattern": PATTERN, "is_on": "on"}


BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {
    "readers:new": _body,
    "readers:edit": _body,
    "readers:try": lambda _made: {"lines": "at 3: 2.5"},
    "api:log-readers": lambda _made: {"name": "Ours", "pattern": PATTERN},
    "api:log-readers-try": lambda _made: {"lines": "at 3: 2.5"},
}
