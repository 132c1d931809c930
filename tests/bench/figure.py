"""One measured figure beside its rival."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """`rival` is the other arm's value in the same unit (None where there is none); `goal` bounds `ratio`, or `value`
    where there is no rival. Smaller is better in both."""

    name: str
    value: float
    unit: str
    rival: float | None
    goal: float

    def line(self) -> str:
        ratio = self.value / self.rival if self.rival else None
        holds = (ratio if ratio is not None else self.value) <= self.goal
        fields = {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "rival": None if self.rival is None else round(self.rival, 4),
            "ratio": None if ratio is None else round(ratio, 3),
            "goal": self.goal,
            "holds": holds,
        }
        return json.dumps(fields)
