"""Who may do what with models. Pods show tokens of their own; nobody's session opens the doors for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
}


def objects(world: World) -> dict[str, Any]:
    version = made.version(world.scientist, world.place)
    return {"version": version, "model": version.model, "transfer": made.transfer_of(version)}


ARGS: dict[str, Callable[[Objects], list[Any]]] = {
    "catalog:upload": lambda made: [made["transfer"].pk],
    "catalog:upload-file": lambda made: [made["transfer"].pk, "a.safetensors"],
    "catalog:artifact": lambda made: ["0" * 64],
}
BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {}
