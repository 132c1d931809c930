"""Bars: amounts side by side on one scale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A stretch of a bar; `x` and `width` in percent. `look` is "used", "held", "asked", "others" or "over"."""

    look: str
    x: float
    width: float


def bar(scale: int, amounts: Iterable[tuple[str, int]]) -> list[Part]:
    """Lay amounts side by side, those that are nothing left out; what would go beyond the scale ends there."""
    parts, at = [], 0
    for look, amount in amounts:
        end = min(scale, at + amount)
        if end > at:
            parts.append(Part(look, 100 * at / scale, 100 * (end - at) / scale))
        at = max(at, end)
    return parts
