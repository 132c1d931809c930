"""What the watch goes by and what it does: presets, and the document's fields that change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from apps.jobs.domain.fields import Choice, Choices, Decimal, Field, Integer


@dataclass(frozen=True)
class Rules:
    """`factor`: a loss more than so many times the mean of the last good ones is abnormal. `sigmas`: one above their
    mean by so many standard deviations is. `limit`: one above it trips at once, if the run was ever below. `run`: how
    many abnormal ones in a row trip. `pace`: the tokens a second that jobs alike predict. None turns a rule off."""

    factor: float | None = None
    sigmas: float | None = None
    limit: float | None = None
    run: int = 3
    pace: float | None = None


PRESETS: dict[str, Rules] = {
    "watchdog": Rules(factor=10, sigmas=3, limit=100, run=3),
    "spike": Rules(factor=10, run=1),
    "threefold": Rules(factor=10, run=3),
}
OFF = "off"


class Action(StrEnum):
    """What is done when the watch trips. An alert, which is no divergence, is only told and marked."""

    NOTIFY = "notify"
    MARK = "mark"
    SUSPEND = "suspend"
    QUARANTINE = "quarantine"
    OFFER = "offer"


ACTIONS = tuple(action.value for action in Action)
GENTLE = tuple(action for action in ACTIONS if action != Action.SUSPEND)
"""For programs that the portal does not know: what their losses mean it cannot say, so it stops nothing by itself."""


def fields(actions: tuple[str, ...]) -> dict[str, Field]:
    """The document's fields. A threshold that is left empty is the preset's."""
    return {
        "watch": Choice((*PRESETS, OFF), "watchdog"),
        "watch_factor": Decimal(1.01, 1e9, None),
        "watch_sigmas": Decimal(0.5, 1e6, None),
        "watch_limit": Decimal(1e-9, 1e300, None),
        "watch_run": Integer(1, 1000, None),
        "watch_actions": Choices(ACTIONS, actions),
    }


FIELDS = tuple(fields(ACTIONS))


@dataclass(frozen=True)
class Settings:
    """The fields as read; None for a threshold of the preset's own."""

    preset: str
    factor: float | None
    sigmas: float | None
    limit: float | None
    run: int | None
    actions: frozenset[str]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Settings:
        """From values that `fields` has read."""
        return cls(
            values["watch"],
            values["watch_factor"],
            values["watch_sigmas"],
            values["watch_limit"],
            values["watch_run"],
            frozenset(values["watch_actions"]),
        )

    def document(self) -> dict[str, Any]:
        """The fields again."""
        return {
            "watch": self.preset,
            "watch_factor": self.factor,
            "watch_sigmas": self.sigmas,
            "watch_limit": self.limit,
            "watch_run": self.run,
            "watch_actions": [action for action in ACTIONS if action in self.actions],
        }

    @property
    def is_on(self) -> bool:
        return self.preset != OFF

    @property
    def rules(self) -> Rules:
        """The preset with what was changed of it."""
        own = PRESETS.get(self.preset, Rules())
        return Rules(
            factor=self.factor if self.factor is not None else own.factor,
            sigmas=self.sigmas if self.sigmas is not None else own.sigmas,
            limit=self.limit if self.limit is not None else own.limit,
            run=self.run if self.run is not None else own.run,
        )
