"""What can be wrong with a document: a code and its operands, put into words by `services.messages`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault of one field. `field` is the key of the document ("" for the whole); `code` names a message."""

    field: str
    code: str
    params: dict[str, str | int | float] = dataclasses.field(default_factory=dict)


class InvalidDocument(ValueError):
    """A document that cannot become a job; `problems` holds every fault found, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(", ".join(f"{p.field}: {p.code}" for p in problems))
        self.problems = problems
