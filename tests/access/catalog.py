"""Who may do what with models. Pods show tokens of their own; nobody's session opens the doors for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone

from apps.jobs.domain.phases import Phase
from apps.streams import services as streams
from tests import factories
from tests.access import Objects
from tests.catalog import made
from tests.factories import World

#                                              anon nobody view  sci  adm   aud  oper stranger
LINES: dict[tuple[str, str], str] = {
    ("catalog:upload", "PUT"): "               401  401   401   401  401   401  401  401",
    ("catalog:upload", "POST"): "              401  401   401   401  401   401  401  401",
    ("catalog:upload-file", "PUT"): "          401  401   401   401  401   401  401  401",
    ("catalog:artifact-index", "GET"): "       401  401   401   401  401   401  401  401",
    ("catalog:artifact", "GET"): "             401  401   401   401  401   401  401  401",
    ("catalog:list", "GET"): "                 302  200   200   200  200   200  200  200",
    ("catalog:model", "GET"): "                302  404   200   200  200   200  200  404",
    ("catalog:edit", "GET"): "                 302  404   403   200  200   403  403  404",
    ("catalog:edit", "POST"): "                302  404   403   302  302   403  403  404",
    ("catalog:delete", "GET"): "               302  404   403   200  200   403  403  404",
    ("catalog:delete", "POST"): "              302  404   403   302  302   403  403  404",
    ("catalog:stage", "POST"): "               302  404   403   302  302   403  403  404",
    ("catalog:again", "POST"): "               302  404   403   302  302   403  403  404",
    ("catalog:file", "GET"): "                 302  404   200   200  200   200  200  404",
    ("jobs:register", "GET"): "                302  404   403   200  200   403  403  404",
    ("jobs:register", "POST"): "               302  404   403   302  302   403  403  404",
    ("api:models", "GET"): "                   401  200   200   200  200   200  200  200",
    ("api:model", "GET"): "                    401  404   200   200  200   200  200  404",
    ("api:model", "PATCH"): "                  401  404   403   200  200   403  403  404",
    ("api:model", "DELETE"): "                 401  404   403   400  400   403  403  404",
    ("api:model-versions", "GET"): "           401  404   200   200  200   200  200  404",
    ("api:model-version", "GET"): "            401  404   200   200  200   200  200  404",
    ("api:model-stage", "POST"): "             401  404   403   200  200   403  403  404",
    ("api:model-again", "POST"): "             401  404   403   202  202   403  403  404",
    ("api:model-files", "GET"): "              401  404   200   200  200   200  200  404",
    ("api:model-file", "GET"): "               401  404   200   200  200   200  200  404",
    ("api:job-register", "POST"): "            401  404   403   202  202   403  403  404",
}


def objects(world: World) -> dict[str, Any]:
    version = made.ready(made.version(world.scientist, world.place), {"README.md": b""})
    job = factories.job(
        world.scientist, world.place, document={"name": "to register"}, phase=Phase.RUNNING, running_at=timezone.now()
    )
    streams.record_points(job.topic, 1, [("loss", 500, 1.5, timezone.now())])
    return {"version": version, "model": version.model, "transfer": made.transfer_of(version), "trained": job}


def _model(made: Objects) -> list[Any]:
    return [made["model"].pk]


def _version(made: Objects) -> list[Any]:
    return [made["model"].pk, made["version"].number]


def _file(made: Objects) -> list[Any]:
    return [*_version(made), "README.md"]


ARGS: dict[str, Callable[[Objects], list[Any]]] = {
    "catalog:upload": lambda made: [made["transfer"].pk],
    "catalog:upload-file": lambda made: [made["transfer"].pk, "a.safetensors"],
    "catalog:artifact": lambda _made: ["0" * 64],
    "catalog:model": _model,
    "catalog:edit": _model,
    "catalog:delete": _model,
    "catalog:stage": _version,
    "catalog:again": _version,
    "catalog:file": _file,
    "jobs:register": lambda made: [made["trained"].pk],
    "api:model": _model,
    "api:model-versions": _model,
    "api:model-version": _version,
    "api:model-stage": _version,
    "api:model-again": _version,
    "api:model-files": _version,
    "api:model-file": _file,
    "api:job-register": lambda made: [made["trained"].pk],
}

_SAID = {"name": "lighthouse", "licence": "MIT", "visibility": "tenant"}

BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {
    "catalog:edit": lambda _made: _SAID,
    "catalog:delete": lambda made: {"name": made["model"].name},
    "catalog:stage": lambda _made: {"act": "propose"},
    "jobs:register": lambda _made: _SAID,
    "api:model-stage": lambda _made: {"act": "propose"},
    "api:job-register": lambda _made: _SAID,
}
