"""Kubernetes quantities as whole numbers, bounded: the API server accepts 1e400."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

LIMIT = 1 << 60
"""More than any node has, and it fits a database's integer."""

_NUMBER = re.compile(r"(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(.{0,6})", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,3})", re.ASCII)
_SCALES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("MGTPE", 2)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}


@lru_cache(maxsize=4096)
def thousandths(text: str) -> int:
    """Thousandths of a quantity, rounded up (`1500m` and `1.5` are 1500), at most LIMIT; 0 for what is none."""
    found = _NUMBER.fullmatch(text.removeprefix("+"))
    if found is None:
        return 0
    scale = _SCALES.get(found[2])
    if scale is None and (exponent := _EXPONENT.fullmatch(found[2])):
        scale = Fraction(10) ** int(exponent[1])
    return min(LIMIT, -((-Fraction(found[1]) * scale * 1000).__floor__())) if scale else 0


def whole(text: str) -> int:
    """Whole units of a quantity, rounded up (a node's memory in bytes)."""
    return -(-thousandths(text) // 1000)
