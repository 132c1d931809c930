"""Resource quantities: `0.5` is `500m`, `1024Mi` is `1Gi`."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from typing import Any

Object = dict[str, Any]

FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)")
RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
LARGEST_EXPONENT = 4000


class BadQuantity(ValueError):
    """Not a quantity."""


def parse(text: Any) -> tuple[Decimal, str]:
    """Value and style (`binary`, `decimal` or `exponent`) of a quantity. Raises BadQuantity."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = str(text)
    match = FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadQuantity(RULE)
    sign, digits, suffix = match.groups()
    number = Decimal(digits) * (-1 if sign == "-" else 1)
    if suffix in BINARY:
        return _bounded(number * Decimal(1024) ** BINARY[suffix]), "binary"
    if suffix in DECIMAL:
        return _bounded(number * Decimal(10) ** DECIMAL[suffix]), "decimal"
    exponent = int(suffix[1:])
    if abs(exponent) > LARGEST_EXPONENT:
        raise BadQuantity(RULE)
    return _bounded(number * Decimal(10) ** exponent), "exponent"


def _bounded(value: Decimal) -> Decimal:
    """In steps of one nano, rounded away from zero."""
    return value.quantize(Decimal("1e-9"), rounding=ROUND_UP) if value != value.to_integral_value() else value


def value(text: Any) -> Decimal:
    return text if isinstance(text, Decimal) else parse(text)[0]


def canonical(text: Any) -> str:
    """The one way to write a quantity: whole numbers, the largest suffix that keeps them whole."""
    return _written(*parse(text))


def text(amount: Any) -> str:
    """An amount as it is told, be it a quantity or a sum."""
    return _written(amount, "decimal") if isinstance(amount, Decimal) else canonical(amount)


def written(number: Decimal, like: str) -> str:
    """A sum in the style of another quantity."""
    return _written(number, parse(like)[1])


def _written(number: Decimal, style: str) -> str:
    if number == 0:
        return "0"
    if style == "binary" and abs(number) >= 1024 and number == number.to_integral_value():
        return _binary(int(number))
    return _decimal(number, exponent=style == "exponent")


def _binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < 6:
        number, power = number // 1024, power + 1
    return f"{number}{next((name for name, size in BINARY.items() if size == power), '')}"


def _decimal(number: Decimal, *, exponent: bool) -> str:
    _, digits, power = number.normalize().as_tuple()
    assert isinstance(power, int)
    scaled = int("".join(map(str, digits))) * (-1 if number < 0 else 1)
    scaled, power = scaled * 10 ** (power % 3), power - power % 3
    if not exponent and power > 18:
        scaled, power = scaled * 10 ** (power - 18), 18
    if exponent:
        return f"{scaled}e{power}" if power else str(scaled)
    return f"{scaled}{next(name for name, size in DECIMAL.items() if size == power)}"
