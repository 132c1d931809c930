"""The platform's line format, which its workloads write: level, rank, step, message. Any other line is text, with the
rank that torchrun puts before it."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_SEARCHED = 4096
"""Characters of a line in which the format is looked for; the rest is only shown."""

_PLATFORM = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)\] \[(?P<level>[A-Z]+)\] \[(?P<name>[^\]]*)\]"
    r" \[Rank-(?P<rank>\d+)\](?: \[Step-(?P<step>\d+)\])? ?(?P<message>.*)",
    re.DOTALL,
)
_TORCHRUN = re.compile(r"\[rank(\d{1,6})\]:\s?")
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR"}
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True)
class Line:
    """`text` is free of terminal and direction controls; `drawn` is what stood on the line before it."""

    text: str
    level: str = ""
    rank: int | None = None
    step: int | None = None
    drawn: str = ""


def read(raw: str) -> Line:
    """Read one line, without its newline. Of a progress bar, which draws over itself, the last state is the text."""
    drawn, _, raw = raw.rstrip("\r").rpartition("\r")
    text = _CONTROL.sub("", raw)
    head = text[:MAX_SEARCHED]
    if match := _PLATFORM.fullmatch(head):
        step = int(match["step"]) if match["step"] else None
        message = _unbracket(match["message"] + text[MAX_SEARCHED:])
        return Line(message, _level(match["level"]), int(match["rank"]), step, drawn)
    found, torchrun = _LEVEL.search(head[:200]), _TORCHRUN.match(head)
    level, rank = _level(found[1]) if found else "", int(torchrun[1]) if torchrun else None
    return Line(text[torchrun.end() :] if torchrun else text, level, rank, None, drawn)


def _unbracket(message: str) -> str:
    whole = message.startswith("[") and message.endswith("]") and "[" not in message[1:]
    return message[1:-1] if whole else message


def _level(word: str) -> str:
    return _LEVELS.get(word, word)
