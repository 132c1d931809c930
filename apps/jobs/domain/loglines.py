"""Reading one line of a training log: level, rank, step and the figures in it. A line that fits nothing stays text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

MAX_SEARCHED = 4096
"""Characters of a line that are searched for figures; the rest is only shown."""

_NUMBER = r"[+-]?(?:nan|inf(?:inity)?|(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)"
_PLATFORM = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)\] \[(?P<level>[A-Z]+)\] \[(?P<job>[^\]]*)\]"
    r" \[Rank-(?P<rank>\d+)\](?: \[Step-(?P<step>\d+)\])? ?(?P<message>.*)",
    re.DOTALL,
)
_FIGURE = re.compile(rf"(?P<name>Loss|LR|Grad Norm|Tokens/s|GPU Util)\s*[:=]\s*(?P<value>{_NUMBER})", re.IGNORECASE)
_SERIES = {
    "loss": "loss",
    "lr": "learning_rate",
    "grad norm": "grad_norm",
    "tokens/s": "tokens_per_second",
    "gpu util": "gpu_utilisation",
}
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR"}
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True)
class Line:
    """`text` is free of terminal and direction controls. `figures` maps a series to its value, nan and inf included;
    they count only where `step` is known."""

    text: str
    level: str = ""
    rank: int | None = None
    step: int | None = None
    figures: dict[str, float] = field(default_factory=dict)


def parse(raw: str) -> Line:
    """Read one line, without its newline."""
    text = _CONTROL.sub("", raw)
    head = text[:MAX_SEARCHED]
    if match := _PLATFORM.fullmatch(head):
        figures = {_SERIES[m["name"].lower()]: _value(m["value"]) for m in _FIGURE.finditer(match["message"])}
        step = int(match["step"]) if match["step"] else None
        message = match["message"] + text[MAX_SEARCHED:]
        return Line(
            _unbracket(message), _level(match["level"]), int(match["rank"]), step, figures if step is not None else {}
        )
    found = _LEVEL.search(head[:200])
    return Line(text, _level(found[1]) if found else "")


def _unbracket(message: str) -> str:
    whole = message.startswith("[") and message.endswith("]") and "[" not in message[1:]
    return message[1:-1] if whole else message


def _level(word: str) -> str:
    return _LEVELS.get(word, word)


def _value(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) or text.lower().lstrip("+-")[:3] in ("nan", "inf") else math.inf
