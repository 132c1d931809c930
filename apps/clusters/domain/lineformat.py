"""The platform's line format, which its workloads write: level, rank, step, message. Any other line is text, with the
rank that torchrun puts before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apps.clusters.domain.terminal import Style, last_drawn, moved, read_styles

MAX_SEARCHED = 4096
"""Characters of a line in which the format is looked for; the rest is only shown."""
LEVEL_CHARACTERS = 200
"""Characters of any other line in which a level is looked for."""

PLATFORM = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)\] \[(?P<level>[A-Z]+)\] \[(?P<name>[^\]]*)\]"
    r" \[Rank-(?P<rank>\d+)\](?: \[Step-(?P<step>\d+)\])? ?(?P<message>.*)",
    re.DOTALL,
)
TORCHRUN = re.compile(r"\[rank(?P<rank>\d{1,6})\]:\s?")
LEVEL = re.compile(r"\b(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR"}


@dataclass(frozen=True)
class Line:
    """`text` is free of terminal and direction controls; `drawn` is what stood on the line before it; `styles` say how
    parts of the text look."""

    text: str
    level: str = ""
    rank: int | None = None
    step: int | None = None
    drawn: str = ""
    styles: Sequence[Style] = ()


def read(raw: str) -> Line:
    """Read one line, without its newline. Of a progress bar, which draws over itself, the last state is the text."""
    drawn, last = last_drawn(raw)
    text, styles = read_styles(last)
    head = text[:MAX_SEARCHED]
    if match := PLATFORM.fullmatch(head):
        step = int(match["step"]) if match["step"] else None
        message = match["message"] + text[MAX_SEARCHED:]
        shown = _unbracket(message)
        styles = moved(styles, match.start("message") + (shown != message), len(shown))
        return Line(shown, level_of(match["level"]), int(match["rank"]), step, drawn, styles)
    found, torchrun = LEVEL.search(head[:LEVEL_CHARACTERS]), TORCHRUN.match(head)
    level = level_of(found[1]) if found else ""
    if torchrun is None:
        return Line(text, level, drawn=drawn, styles=styles)
    text = text[torchrun.end() :]
    return Line(text, level, int(torchrun["rank"]), None, drawn, moved(styles, torchrun.end(), len(text)))


def _unbracket(message: str) -> str:
    whole = message.startswith("[") and message.endswith("]") and "[" not in message[1:]
    return message[1:-1] if whole else message


def level_of(word: str) -> str:
    """One of the levels that there are, where a word means the same."""
    return _LEVELS.get(word, word)
