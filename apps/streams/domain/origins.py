"""Where the points of a curve come from."""

from __future__ import annotations

from enum import IntEnum


class Origin(IntEnum):
    """The number is kept with each point. What was read from a log takes the place of anything else."""

    LOG = 0
    PUSHED = 1
    PROMETHEUS = 2
    TENSORBOARD = 3

    @property
    def bit(self) -> int:
        return 1 << self

    @property
    def word(self) -> str:
        """What REST and tables call it."""
        return self.name.lower()


def origins_of(bits: int) -> list[Origin]:
    """Those whose bits are set."""
    return [origin for origin in Origin if bits & origin.bit]
