"""Kubernetes quantities as whole thousandths, so that sums and comparisons are exact."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

Resources = dict[str, int]
"""Amounts by resource name, in thousandths: `{"cpu": 500, "nvidia.com/gpu": 8000}`."""

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(.*)", re.ASCII)
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {"": 1, "k": 1000} | {letter: 1000**power for power, letter in enumerate("MGTPE", 2)}
_SMALL = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,3})", re.ASCII)


def parse(value: Any) -> int:
    """Thousandths of a quantity (`"1500m"` is 1500), rounded up as Kubernetes does. Raises ValueError."""
    return _parse(str(value))


@lru_cache(maxsize=4096)
def _parse(value: str) -> int:
    found = _NUMBER.fullmatch(value)
    if not found:
        raise ValueError(f"quantities must match the regular expression '{PATTERN}'")
    number, suffix = Fraction(found[1]), found[2]
    scale: Fraction | int | None = _BINARY.get(suffix) or _DECIMAL.get(suffix) or _SMALL.get(suffix)
    if scale is None and (exponent := _EXPONENT.fullmatch(suffix)):
        scale = Fraction(10) ** int(exponent[1])
    if scale is None:
        raise ValueError(f"quantities must match the regular expression '{PATTERN}'")
    return -((-number * scale * 1000).__floor__())


def parse_all(amounts: dict[str, Any] | None) -> Resources:
    """Thousandths of each quantity of a resource list. Raises ValueError."""
    return {name: parse(value) for name, value in (amounts or {}).items()}


def render(name: str, thousandths: int) -> str:
    """The canonical text of an amount: powers of 1024 for memory and storage, of 1000 for everything else."""
    whole, rest = divmod(thousandths, 1000)
    if rest:
        return f"{thousandths}m"
    sizes = _BINARY if any(word in name for word in ("memory", "storage", "hugepages-")) else _DECIMAL
    best = max((pair for pair in sizes.items() if whole and whole % pair[1] == 0), key=lambda p: p[1], default=("", 1))
    return f"{whole // best[1]}{best[0]}"


def render_all(amounts: Resources) -> dict[str, str]:
    return {name: render(name, value) for name, value in amounts.items()}


def add(*parts: Resources) -> Resources:
    total: Resources = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def subtract(whole: Resources, part: Resources) -> Resources:
    return {name: whole.get(name, 0) - part.get(name, 0) for name in whole.keys() | part.keys()}


def times(amounts: Resources, count: int) -> Resources:
    return {name: value * count for name, value in amounts.items()}


def exceeding(amounts: Resources, limit: Resources) -> list[str]:
    """Names of what is asked for (more than nothing) and is above the limit, sorted."""
    return sorted(name for name, value in amounts.items() if value > 0 and value > limit.get(name, 0))


def excess(amounts: Resources, base: Resources) -> Resources:
    """The positive part of `amounts - base`."""
    return {name: value - base.get(name, 0) for name, value in amounts.items() if value > base.get(name, 0)}


def largest(*parts: Resources) -> Resources:
    out: Resources = {}
    for part in parts:
        for name, value in part.items():
            out[name] = max(out.get(name, 0), value)
    return out


def pod_total(spec: dict[str, Any], key: str) -> Resources:
    """What a pod asks for (`key` "requests") or may use ("limits"): containers together, or its largest init step."""
    sidecars: Resources = {}
    steps: list[Resources] = []
    for container in spec.get("initContainers") or []:
        amounts = parse_all((container.get("resources") or {}).get(key))
        if container.get("restartPolicy") == "Always":
            sidecars = add(sidecars, amounts)
            steps.append(sidecars)
        else:
            steps.append(add(sidecars, amounts))
    running = add(sidecars, *(parse_all((c.get("resources") or {}).get(key)) for c in spec.get("containers") or []))
    return add(largest(running, *steps), parse_all(spec.get("overhead")))
