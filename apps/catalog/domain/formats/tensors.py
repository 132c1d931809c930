"""What the headers of one file say, and adding files up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

MOST_TENSORS = 200_000
MOST_DIMENSIONS = 16
MOST_PARAMETERS = 1 << 60


@dataclass
class Found:
    """`dtypes` maps the name of a number's type to how many parameters have it. `unopened`: holds a pickle."""

    format: str
    tensors: int = 0
    dtypes: dict[str, int] = field(default_factory=dict)
    weight_bytes: int = 0
    context: int | None = None
    architecture: str = ""
    quantisation: str = ""
    step: int | None = None
    unopened: bool = False

    @property
    def parameters(self) -> int:
        return sum(self.dtypes.values())

    def add(self, dtype: str, parameters: int, size: int) -> None:
        """One more tensor."""
        self.tensors += 1
        self.dtypes[dtype] = self.dtypes.get(dtype, 0) + parameters
        self.weight_bytes += size


def product(shape: Iterable[int]) -> int | None:
    """How many numbers a shape holds; None for one that no file can hold."""
    sizes = list(shape)
    if len(sizes) > MOST_DIMENSIONS or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in sizes):
        return None
    found = prod(sizes)
    return found if found <= MOST_PARAMETERS else None


def tidy(text: object, limit: int = 60) -> str:
    """A word from a file as it may be shown."""
    return text[:limit] if isinstance(text, str) and text.isprintable() else ""
