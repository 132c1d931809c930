"""The images this node knows, and what each stands for on this machine (`deploy/workloads/images.json`)."""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The grammar of image references, without the length limits.
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]+)?"
_REFERENCE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]*)?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII)
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """One row of the table.

    `entrypoint` and `cmd` mean what they mean in an image. `python` gives it this program's Python environment; `paths`
    are folders of `root`, the checkout, that it contains; `${ROOT}` in env values is that folder.
    """

    name: str
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    workdir: str = "/"
    python: bool = False
    root: Path = Path()

    def environment(self) -> dict[str, str]:
        """The image's own variables. Nothing of the agent's environment is in them."""
        path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}" if self.python else SYSTEM_PATH
        own = {name: value.replace("${ROOT}", str(self.root)) for name, value in self.env.items()}
        return {"PATH": path, "LANG": "C.UTF-8", **own}

    def folders(self) -> list[str]:
        """Absolute folders of this machine that the image contains, beside the system's own."""
        parts = [str(self.root / path) for path in self.paths]
        if self.python:
            prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
            parts += [*prefixes, *(str(Path(prefix).resolve()) for prefix in prefixes)]
        return sorted(set(parts))


def load(path: Path, root: Path) -> list[Image]:
    """Read the table. Raises OSError, ValueError, TypeError (an unknown field)."""
    rows: list[dict[str, Any]] = json.loads(path.read_text())["images"]
    return [Image(**row, root=root) for row in rows]


def is_reference(name: str) -> bool:
    """Whether this can be the name of an image at all."""
    return bool(_REFERENCE.fullmatch(name))


def find(table: list[Image], name: str) -> Image | None:
    """The row for an image's name; a registry's host in front and a digest behind do not matter."""
    plain = name.partition("@")[0]
    first, slash, rest = plain.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        plain = rest
    if ":" not in plain:
        plain += ":latest"
    return next((image for image in table if fnmatch.fnmatchcase(plain, image.name)), None)
