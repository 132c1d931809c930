"""Who may do what with deployments. The gateway shows a secret of its own; nobody's session opens its door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.serving.models import DeploymentKey
from apps.streams import services as streams
from tests.access import Objects
from tests.factories import World
from tests.serving import made

#                                                 anon nobody view  sci  adm   aud  oper stranger
LINES: dict[tuple[str, str], str] = {
    ("serving:list", "GET"): "                    302  200   200   200  200   200  200  200",
    ("serving:new", "GET"): "                     302  403   403   200  200   403  403  200",
    ("serving:new", "POST"): "                    302  403   403   302  302   403  403  200",
    ("serving:detail", "GET"): "                  302  404   200   200  200   200  200  404",
    ("serving:scale", "GET"): "                   302  404   403   200  200   403  200  404",
    ("serving:scale", "POST"): "                  302  404   403   302  302   403  302  404",
    ("serving:stop", "GET"): "                    302  404   403   200  200   403  200  404",
    ("serving:stop", "POST"): "                   302  404   403   302  302   403  302  404",
    ("serving:start", "POST"): "                  302  404   403   302  302   403  302  404",
    ("serving:remove", "GET"): "                  302  404   403   200  200   403  200  404",
    ("serving:remove", "POST"): "                 302  404   403   302  302   403  302  404",
    ("serving:chat", "POST"): "                   302  404   403   400  400   403  403  404",
    ("serving:log-line", "GET"): "                302  404   200   200  200   200  200  404",
    ("serving:log-download", "GET"): "            302  404   200   200  200   200  200  404",
    ("serving:key-create", "POST"): "             302  404   403   200  200   403  403  404",
    ("serving:key-revoke", "POST"): "             302  404   403   302  302   403  302  404",
    ("serving:authorize", "GET"): "               403  403   403   403  403   403  403  403",
    ("serving:authorize", "POST"): "              403  403   403   403  403   403  403  403",
    ("api:deployments", "GET"): "                 401  200   200   200  200   200  200  200",
    ("api:deployments", "POST"): "                401  400   403   202  202   403  403  400",
    ("api:deployment", "GET"): "                  401  404   200   200  200   200  200  404",
    ("api:deployment-replicas", "GET"): "         401  404   200   200  200   200  200  404",
    ("api:deployment-manifests", "GET"): "        401  404   200   200  200   200  200  404",
    ("api:deployment-log", "GET"): "              401  404   200   200  200   200  200  404",
    ("api:deployment-scale", "POST"): "           401  404   403   202  202   403  202  404",
    ("api:deployment-stop", "POST"): "            401  404   403   202  202   403  202  404",
    ("api:deployment-start", "POST"): "           401  404   403   202  202   403  202  404",
    ("api:deployment-remove", "POST"): "          401  404   403   202  202   403  202  404",
    ("api:deployment-keys", "GET"): "             401  404   200   200  200   200  200  404",
    ("api:deployment-keys", "POST"): "            401  404   403   201  201   403  403  404",
    ("api:deployment-key", "DELETE"): "           401  404   403   204  204   403  204  404",
}


def objects(world: World) -> dict[str, Any]:
    deployable = made.version(world.scientist, world.place, name="served")
    deployment = made.deployment(world.scientist, deployable)
    key = DeploymentKey.objects.create(
        tenant=world.nlp, deployment=deployment, name="ci", prefix="md_x", digest="d", requests_per_minute=60,
        created_by=world.scientist,
    )  # fmt: skip
    line = streams.LogLine(1, "INFO", 0, None, "hello")
    streams.append(deployment.topic, streams.LogFrame(streams.Source(0, 1, "pod"), [line]))
    return {"deployment": deployment, "deployment_key": key, "deployable": deployable}


def _one(made: Objects) -> list[Any]:
    return [made["deployment"].pk]


def _key(made: Objects) -> list[Any]:
    return [made["deployment"].pk, made["deployment_key"].pk]


_PAGES = ("detail", "scale", "stop", "start", "remove", "chat", "key-create")
_API = ("replicas", "manifests", "log", "scale", "stop", "start", "remove", "keys")
ARGS: dict[str, Callable[[Objects], list[Any]]] = {
    **{f"serving:{name}": _one for name in _PAGES},
    **{f"api:deployment-{name}": _one for name in _API},
    "api:deployment": _one,
    "serving:log-line": lambda made: [made["deployment"].pk, 1],
    "serving:log-download": _one,
    "serving:key-revoke": _key,
    "api:deployment-key": _key,
    "serving:authorize": lambda _made: ["nlp/x/v1/models"],
}


def _form(made: Objects) -> dict[str, Any]:
    return {"version": made["deployable"].pk, "tenant": "nlp", "name": "n", "shape": "1-small", "replicas": "1"}


BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {
    "serving:new": _form,
    "serving:scale": lambda _made: {"replicas": "2"},
    "serving:remove": lambda made: {"typed": made["deployment"].name},
    "serving:key-create": lambda _made: {"name": "n", "rate": "60"},
    "api:deployments": _form,
    "api:deployment-scale": lambda _made: {"replicas": 2},
    "api:deployment-remove": lambda made: {"name": made["deployment"].name},
    "api:deployment-keys": lambda _made: {"name": "n"},
}
