"""The figures that a training log tells in passing."""

from __future__ import annotations

import math
import re

MAX_SEARCHED = 4096
"""Characters of a message that are searched."""

_NUMBER = r"[+-]?(?:nan|inf(?:inity)?|(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)"
_FIGURE = re.compile(rf"(?P<name>Loss|LR|Grad Norm|Tokens/s|GPU Util)\s*[:=]\s*(?P<value>{_NUMBER})", re.IGNORECASE)
_SERIES = {
    "loss": "loss",
    "lr": "learning_rate",
    "grad norm": "grad_norm",
    "tokens/s": "tokens_per_second",
    "gpu util": "gpu_utilisation",
}


def figures(message: str) -> dict[str, float]:
    """A message's figures by series, nan and inf included."""
    found = _FIGURE.finditer(message[:MAX_SEARCHED])
    return {_SERIES[match["name"].lower()]: _value(match["value"]) for match in found}


def _value(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) or text.lower().lstrip("+-")[:3] in ("nan", "inf") else math.inf
