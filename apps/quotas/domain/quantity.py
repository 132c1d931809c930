"""Quantities in the grammar of Kubernetes, exactly: `1500m` is `1.5`, `1024Mi` is `1Gi`, `1e3` is 1000.

All three ways of writing are read: decimal (`n u m k M G T P E`), binary (`Ki Mi Gi Ti Pi Ei`) and with an exponent. As
the API server does, values are kept in steps of one nano, rounded away from zero, and binary ones end at 2⁶³ − 1.
Unlike it, no number at all (`-`, `.`) is refused instead of being 0, and so are exponents that would fill the memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

NANOS = 10**9
LARGEST_BINARY = 2**63 - 1
LARGEST_EXPONENT = 9999

_FORM = re.compile(r"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))([a-zA-Z]*(?:(?<=[eE])[+-]?\d+)?)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_EXPONENT = re.compile(r"[eE]([+-]?\d+)", re.ASCII)


class Style(StrEnum):
    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class BadQuantity(ValueError):
    """Not a quantity; `text` is what was given, `why` one of "number", "suffix" and "exponent"."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"{text!r}: {why}")
        self.text, self.why = text, why


@dataclass(frozen=True)
class Quantity:
    """A value in nanos, and the way in which it is written. `whole` is None unless the value is a whole number."""

    nanos: int
    style: Style

    @property
    def whole(self) -> int | None:
        return None if self.nanos % NANOS else self.nanos // NANOS

    @property
    def base(self) -> str:
        """The value in its unit, without suffix: `0.5`, `1073741824`."""
        whole, rest = divmod(abs(self.nanos), NANOS)
        digits = f"{whole}.{rest:09}".rstrip("0").rstrip(".")
        return f"-{digits}" if self.nanos < 0 else digits

    @property
    def canonical(self) -> str:
        """The one way to write it: a whole number with the largest suffix that keeps it whole."""
        if not self.nanos:
            return "0"
        if self.style is Style.BINARY and self.whole is not None and abs(self.whole) >= 1024:
            return _binary(self.whole)
        return _decimal(self.nanos, self.style)


def parse(text: str) -> Quantity:
    """Read a quantity. Raises BadQuantity."""
    found = _FORM.fullmatch(text)
    if not found:
        raise BadQuantity(text, "number")
    sign, before, after, only_after, suffix = found.groups()
    before, after = before or "", after or only_after or ""
    scale, style = _scale(text, suffix)
    value = Fraction(int(before + after), 10 ** len(after)) * scale
    nanos = -(-value * NANOS).__floor__()
    if style is Style.BINARY:
        nanos = min(nanos, LARGEST_BINARY * NANOS)
        style = Style.DECIMAL if 0 < nanos < NANOS else style
    return Quantity(-nanos if sign == "-" else nanos, style)


def _scale(text: str, suffix: str) -> tuple[Fraction, Style]:
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix], Style.DECIMAL
    if suffix in _BINARY:
        return Fraction(1024) ** _BINARY[suffix], Style.BINARY
    exponent = _EXPONENT.fullmatch(suffix)
    if not exponent:
        raise BadQuantity(text, "suffix")
    if len(exponent[1].lstrip("+-0")) > len(str(LARGEST_EXPONENT)):
        raise BadQuantity(text, "exponent")
    return Fraction(10) ** int(exponent[1]), Style.EXPONENT


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY):
        whole, power = whole // 1024, power + 1
    return f"{whole}{['', *_BINARY][power]}"


def _decimal(nanos: int, style: Style) -> str:
    number, exponent = nanos, -9
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    largest = exponent if style is Style.EXPONENT else min(exponent, 18)
    shown = largest - largest % 3
    number *= 10 ** (exponent - shown)
    if style is Style.EXPONENT:
        return f"{number}e{shown}" if shown else str(number)
    return f"{number}{next(suffix for suffix, power in _DECIMAL.items() if power == shown)}"
