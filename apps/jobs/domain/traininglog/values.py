"""Names and numbers as frameworks write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_OF_MSVC = r"1\.#(?:INF|IND|[QS]NAN)0*"
NUMBER = rf"[+-]?(?:nan|inf(?:inity)?|{_OF_MSVC}|(?:\d+(?:,\d{{3}})+|\d+)(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)"
_NUMBER = re.compile(NUMBER, re.IGNORECASE)

SERIES = {
    "loss": "loss",
    "lm loss": "loss",
    "eval loss": "eval_loss",
    "lr": "learning_rate",
    "learning rate": "learning_rate",
    "grad norm": "grad_norm",
    "loss scale": "loss_scale",
    "tokens/s": "tokens_per_second",
    "tps": "tokens_per_second",
    "gpu util": "gpu_utilisation",
}
"""Names, in lower case and with spaces, of what is worth a curve."""


def number(text: str) -> float | None:
    """The number that all of `text` is; a per cent sign may follow it. 1e400 is infinite; None for anything else."""
    plain = text.removesuffix("%")
    if not _NUMBER.fullmatch(plain):
        return None
    if "#" in plain:  # as Microsoft's C library prints what is no number
        plain = plain[: plain.index("1")] + ("inf" if "INF" in plain.upper() else "nan")
    return float(plain.replace(",", ""))


def named(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """The pairs of name and text that are known series with a number."""
    found: dict[str, float] = {}
    for name, text in pairs:
        series = SERIES.get(name.strip().lower().replace("_", " "))
        value = number(text) if series else None
        if series and value is not None:
            found[series] = value
    return found


def whole(text: str) -> int | None:
    """A step number; None for a number with a fraction or none."""
    value = number(text)
    return int(value) if value is not None and math.isfinite(value) and value == int(value) else None
