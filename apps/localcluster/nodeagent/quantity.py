"""Kubernetes quantities (`500m`, `16Gi`, `1e3`) as exact numbers."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

_FORM = re.compile(r"([+-]?[0-9.]+)(n|u|m|k|[MGTPE]i?|Ki|[eE][+-]?[0-9]+)?")
_SCALES = {"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(1000)}
_SCALES |= {name: Decimal(1000) ** power for power, name in enumerate("MGTPE", start=2)}
_SCALES |= {f"{name}i": Decimal(1024) ** power for power, name in enumerate("KMGTPE", start=1)}


def parse(text: str | int | float) -> Decimal:
    """Raises ValueError for what is not a quantity."""
    found = _FORM.fullmatch(str(text))
    if not found:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = Decimal(found[1]), found[2] or ""
    return number * (_SCALES[suffix] if suffix in _SCALES else Decimal(f"1{suffix}"))


def divided(text: str | int | float, divisor: str) -> int:
    """How many times `divisor` (0 or empty means 1) goes into a quantity, rounded up as the kubelet does."""
    unit = parse(divisor) if divisor not in ("", "0") else Decimal(1)
    return int((parse(text) / unit).to_integral_value(ROUND_CEILING))
