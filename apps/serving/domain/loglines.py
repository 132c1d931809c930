"""One line of a model server's log: its text without terminal controls, and its level where it names one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LEVEL = re.compile(r"\b(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR"}
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True)
class Line:
    text: str
    level: str = ""
    rank: int | None = None
    step: int | None = None
    figures: dict[str, float] = field(default_factory=dict)


def parse(raw: str) -> Line:
    """Read one line, without its newline."""
    text = _CONTROL.sub("", raw)
    found = _LEVEL.search(text[:200])
    return Line(text, _LEVELS.get(found[1], found[1]) if found else "")
