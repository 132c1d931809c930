"""Where a transfer of files is, and the reasons it may give."""

from __future__ import annotations

from enum import StrEnum


class Moving(StrEnum):
    """A transfer goes from ASKED over CARRYING and READING to DONE, or ends as FAILED or STOPPED."""

    ASKED = "asked"
    CARRYING = "carrying"
    READING = "reading"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED = frozenset({Moving.DONE, Moving.FAILED, Moving.STOPPED})
