"""The lines of the access table that belong to one app each: a module of the app's name, found by itself.

Each has `LINES`, as in `tests/test_access_table.py`; `objects(world)`, which makes one object of each kind (the
scientist's, in their tenant) and returns them by name; `ARGS`, from route to the arguments of its address; and
`BODIES`, from route to what a POST sends. Both are called with the objects.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.factories import World

Objects = Mapping[str, Any]


class Part(Protocol):
    LINES: Mapping[tuple[str, str], str]
    ARGS: Mapping[str, Callable[[Objects], list[Any]]]
    BODIES: Mapping[str, Callable[[Objects], dict[str, Any]]]

    @staticmethod
    def objects(world: World) -> dict[str, Any]: ...


PARTS: list[Part] = [
    importlib.import_module(f"{__name__}.{found.name}")  # type: ignore[misc]
    for found in pkgutil.iter_modules(__path__)
]
