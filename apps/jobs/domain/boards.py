"""The life of a TensorBoard that somebody opened for a job."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum


class Stage(StrEnum):
    """From ASKED over STARTING to READY; it ends as ENDED, or as FAILED with a reason."""

    ASKED = "asked"
    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"
    FAILED = "failed"


OVER = frozenset({Stage.ENDED, Stage.FAILED})
STARTING = timedelta(minutes=10)
"""One that is not ready by then is given up."""
IDLE = timedelta(hours=1)
"""One that nobody has used for so long is ended."""


def why_over(now: datetime, used_at: datetime, until: datetime) -> str:
    """Why one that is ready is to end now; "" where it is not."""
    if now >= until:
        return "board.limit"
    return "board.idle" if now - used_at >= IDLE else ""
