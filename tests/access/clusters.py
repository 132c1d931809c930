"""Who may do what with clusters. Everybody who has signed in sees that there are some; only operators change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.access import Objects
from tests.factories import World

#                                                anon nobody view  sci  adm   aud  oper stranger
SEEN = "                                         302  403   200   200  200   200  200  200"
FORM = "                                         302  403   403   403  403   403  200  403"
HIDDEN = "                                       302  404   403   403  403   403  200  403"
ACT = "                                          302  404   403   403  403   403  302  403"
LINES: Mapping[tuple[str, str], str] = {
    ("clusters:list", "GET"): SEEN,
    ("clusters:detail", "GET"): "                302  403   200   200  200   200  200  200",
    ("clusters:add", "GET"): FORM,
    ("clusters:add", "POST"): "                  302  403   403   403  403   403  422  403",
    ("clusters:renew", "GET"): FORM,
    ("clusters:renew", "POST"): "                302  403   403   403  403   403  422  403",
    ("clusters:check", "POST"): ACT,
    ("clusters:maintenance", "GET"): HIDDEN,
    ("clusters:maintenance", "POST"): ACT,
    ("clusters:end-maintenance", "POST"): ACT,
    ("clusters:profile", "GET"): HIDDEN,
    ("clusters:profile", "POST"): ACT,
    ("clusters:remove", "GET"): HIDDEN,
    ("clusters:remove", "POST"): "               302  404   403   403  403   403  409  403",
    ("api:clusters", "GET"): "                   401  403   200   200  200   200  200  200",
    ("api:clusters", "POST"): "                  401  403   403   403  403   403  400  403",
    ("api:cluster", "GET"): "                    401  403   200   200  200   200  200  200",
    ("api:cluster-credential", "PUT"): "         401  403   403   403  403   403  400  403",
    ("api:cluster-check", "POST"): "             401  403   403   403  403   403  202  403",
    ("api:cluster-maintenance", "PUT"): "        401  403   403   403  403   403  400  403",
    ("api:cluster-maintenance", "DELETE"): "     401  403   403   403  403   403  204  403",
    ("api:cluster-profile", "PUT"): "            401  403   403   403  403   403  200  403",
    ("api:cluster-remove", "POST"): "            401  403   403   403  403   403  409  403",
}  # fmt: skip


def objects(world: World) -> dict[str, Any]:
    return {"cluster": world.place.cluster}


_ONE: Callable[[Objects], list[Any]] = lambda found: [found["cluster"].slug]  # noqa: E731
ARGS: Mapping[str, Callable[[Objects], list[Any]]] = {
    route: _ONE for route, _method in LINES if route not in ("clusters:list", "clusters:add", "api:clusters")
}
_FAULTY = {"name": "B", "slug": "train-b", "server": "https://10.0.0.1:6443"}
_REMOVE = {"name": "train-a"}
_MAINTENANCE = {"reason": "firmware"}
BODIES: Mapping[str, Callable[[Objects], dict[str, Any]]] = {
    "clusters:add": lambda found: _FAULTY,
    "clusters:renew": lambda found: _FAULTY,
    "clusters:maintenance": lambda found: _MAINTENANCE,
    "clusters:profile": lambda found: {"fabric": "roce"},
    "clusters:remove": lambda found: _REMOVE,
    "api:clusters": lambda found: _FAULTY,
    "api:cluster-remove": lambda found: _REMOVE,
}
