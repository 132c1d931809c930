"""Pages of one app each, for `tests/prove/test_pages.py`: a module of the app's name, found by itself.

Each has `PAGES`, from the page's name to who looks and the address, with `{names}` in it, and `seed(world, me)`, which
makes what they show and returns the names' values. `EXPECTED_ERRORS` (if any) names pages that answer otherwise than 200.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

SCENES: list[ModuleType] = [
    importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
]
