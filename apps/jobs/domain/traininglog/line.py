"""A line as it comes, and what it told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Line(Protocol):
    """`text` is what is left to see; `drawn` what stood on the line before and was drawn over, as progress bars do;
    `step` that of the platform's own format."""

    @property
    def text(self) -> str: ...
    @property
    def drawn(self) -> str: ...
    @property
    def step(self) -> int | None: ...


@dataclass(frozen=True)
class Told:
    """`values` by series, NaN and infinities included; they count only with a step. `marks` likewise, of what belongs
    to a step, or to the whole run, and is no curve: that a checkpoint was saved, how many steps were skipped so far."""

    step: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    marks: Mapping[str, float] = field(default_factory=dict)
