"""Whether a model fits a shape: by memory, with every operand kept so that the answer can be checked by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from apps.serving.domain.engines.base import Device, Engine, Facts, Operand

GIB = 1 << 30

_MEMORY = re.compile(r"(?<![0-9])(\d{1,3}) ?(?:GiB|GB|G)(?![A-Za-z0-9])", re.IGNORECASE)
USABLE = 0.9
"""The share of a memory that is planned with; the rest is the driver's, and what fragments."""


@dataclass(frozen=True)
class Shape:
    """What one replica gets: whole accelerators, and its share of the host."""

    key: str
    accelerators: int
    cpus: int
    memory_gib: int

    @property
    def host_bytes(self) -> int:
        return self.memory_gib * GIB


SHAPES: dict[str, Shape] = {
    shape.key: shape
    for shape in (
        Shape("1-small", 1, 2, 4),
        Shape("1-large", 1, 8, 64),
        Shape("2", 2, 16, 128),
        Shape("4", 4, 32, 256),
        Shape("8", 8, 64, 512),
    )
}
"""From small to large."""


class Verdict(StrEnum):
    FITS = "fits"
    UNKNOWN = "unknown"
    TOO_LARGE = "too-large"
    CANNOT_SPLIT = "cannot-split"


@dataclass(frozen=True)
class Fit:
    """One shape's answer. `room` is the memory planned with, in bytes; None while the accelerator's is not known."""

    shape: Shape
    verdict: Verdict
    need: int
    room: int | None
    device: Device

    @property
    def possible(self) -> bool:
        return self.verdict in (Verdict.FITS, Verdict.UNKNOWN)


def memory_of_product(product: str) -> int | None:
    """Bytes of one accelerator as its product's name tells them (`NVIDIA-A800-SXM4-80GB`); None where it does not."""
    found = _MEMORY.search(product)
    return int(found[1]) * GIB if found else None


def fit(engine: Engine, facts: Facts, shape: Shape, accelerator_bytes: int | None) -> Fit:
    """Whether one replica fits one shape."""
    need = sum(operand.bytes for operand in engine.need(facts))
    if shape.accelerators > 1 and not engine.splits:
        return Fit(shape, Verdict.CANNOT_SPLIT, need, None, engine.device)
    if engine.device is Device.HOST:
        room: int | None = int(shape.host_bytes * USABLE)
    else:
        room = None if accelerator_bytes is None else int(accelerator_bytes * shape.accelerators * USABLE)
    if room is None:
        return Fit(shape, Verdict.UNKNOWN, need, None, engine.device)
    return Fit(shape, Verdict.FITS if need <= room else Verdict.TOO_LARGE, need, room, engine.device)


def fits(engine: Engine, facts: Facts, accelerator_bytes: int | None) -> list[Fit]:
    """Every shape's answer, from small to large."""
    return [fit(engine, facts, shape, accelerator_bytes) for shape in SHAPES.values()]


def smallest(answers: Iterable[Fit]) -> Fit | None:
    """The smallest shape that fits, or may; None where none does."""
    found = list(answers)
    sure = (answer for answer in found if answer.verdict is Verdict.FITS)
    return next(sure, None) or next((answer for answer in found if answer.possible), None)


__all__ = ["GIB", "SHAPES", "Fit", "Operand", "Shape", "Verdict", "fit", "fits", "memory_of_product", "smallest"]
