"""What may be said of a model, and the paths its files may have."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME_LIMIT, LICENCE_LIMIT, NOTE_LIMIT, CARD_LIMIT = 63, 80, 500, 100_000
TAG_LIMIT, TAGS = 40, 12
FILES, PATH_LIMIT = 10_000, 255

LICENCES = ("Apache-2.0", "MIT", "BSD-3-Clause", "CC-BY-4.0", "CC-BY-NC-4.0", "OpenRAIL-M", "Llama 3.1", "Internal")
"""What the form proposes; anything else may be typed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Fault:
    """One thing that is not right: the field, what it is by its code, and numbers for the sentence."""

    field: str
    code: str
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Invalid(Exception):
    """What was said of a model cannot be taken; every fault is named."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(", ".join(f"{fault.field}: {fault.code}" for fault in faults))
        self.faults = list(faults)


def one_line(name: str, text: str, limit: int, *, needed: bool = True) -> list[Fault]:
    """The faults of a line of text."""
    if needed and not text.strip():
        return [Fault(name, "required")]
    if not text.isprintable():
        return [Fault(name, "unprintable")]
    return [Fault(name, "too-long", {"maximum": limit})] if len(text) > limit else []


def name_faults(name: str) -> list[Fault]:
    """The faults of a model's name; it may be in any script."""
    found = one_line("name", name, NAME_LIMIT)
    return found or ([Fault("name", "name-characters")] if set(name) & set('/\\<>"') else [])


def card_faults(card: str) -> list[Fault]:
    if len(card) > CARD_LIMIT:
        return [Fault("card", "too-long", {"maximum": CARD_LIMIT})]
    return [Fault("card", "unprintable")] if "\0" in card else []


def tags_of(text: str) -> list[str]:
    """Tags as they are typed, parted by commas of either script; each once."""
    parts = (part.strip() for part in re.split("[,，、;；]", text))
    return list(dict.fromkeys(part for part in parts if part))


def tag_faults(tags: Sequence[str]) -> list[Fault]:
    if len(tags) > TAGS:
        return [Fault("tags", "too-many", {"maximum": TAGS})]
    return [fault for tag in tags for fault in one_line("tags", tag, TAG_LIMIT)][:1]


def path_fault(path: str) -> str:
    """Why a file may not have this path, by its code; "" when it may. It never leads out of where it is put."""
    if not path or len(path) > PATH_LIMIT:
        return "path-length"
    if not path.isprintable() or "\\" in path or path.startswith("/"):
        return "path-characters"
    return "path-outside" if any(part in ("", ".", "..") for part in path.split("/")) else ""


@dataclass(frozen=True)
class PlannedFile:
    """A file that a transfer wants to bring."""

    path: str
    size: int
    digest: str


def read_plan(files: Any, limit: int) -> list[PlannedFile]:
    """Read the files of a plan. Raises Invalid; `limit` is the most bytes of all of them."""
    if not isinstance(files, list) or not 1 <= len(files) <= FILES:
        raise Invalid([Fault("files", "files-count", {"maximum": FILES})])
    found = [_planned(entry) for entry in files]
    if len({file.path for file in found}) != len(found):
        raise Invalid([Fault("files", "path-twice")])
    if sum(file.size for file in found) > limit:
        raise Invalid([Fault("files", "too-large", {"gib": limit // 2**30})])
    return found


def _planned(entry: Any) -> PlannedFile:
    entry = entry if isinstance(entry, dict) else {}
    path, size, digest = entry.get("path"), entry.get("size"), entry.get("sha256")
    fault = path_fault(path) if isinstance(path, str) else "path-characters"
    if fault:
        raise Invalid([Fault("files", fault, {"path": str(path)[:80]})])
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**62:
        raise Invalid([Fault("files", "file-size", {"path": path})])
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Invalid([Fault("files", "file-digest", {"path": path})])
    return PlannedFile(path, size, digest)
