"""Where the reading of a job's event files is, how often it looks, and to which attempt and curve a scalar belongs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath

from apps.jobs.domain.eventfiles import MOST_SERIES, series_of
from apps.jobs.domain.phases import FINAL, Phase


class Harvest(StrEnum):
    """Between WAITING and READING it goes to and fro while the job runs; in READING there is a pod. It ends as DONE or
    FAILED."""

    WAITING = "waiting"
    READING = "reading"
    DONE = "done"
    FAILED = "failed"


ENDED = frozenset({Harvest.DONE, Harvest.FAILED})
FIRST = timedelta(minutes=1)
"""After a job began to run: by then what trains has begun its files, or takes long to begin."""
EMPTY = (timedelta(minutes=4), timedelta(minutes=10), timedelta(minutes=15), timedelta(minutes=30), timedelta(hours=1))
"""Pauses after looks that found no file; the last one holds from then on."""
BROKEN = (timedelta(seconds=30), timedelta(minutes=5), timedelta(minutes=15))
"""Pauses after pods that ended without a word. After as many and one more it is given up."""
BUSY, IDLE = timedelta(seconds=10), timedelta(seconds=30)
"""Between two looks of a pod that found files: while something new comes, and else."""
MOST_FILES = 200
MOST_POINTS = 5_000_000
"""Points of one job; its reading ends there."""
WRITES = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESTARTING, Phase.SUSPENDING, Phase.STOPPING})
"""Phases in which ranks may be there that write."""


def pause(empty: int) -> timedelta:
    """Until the next look, after so many that found nothing."""
    return EMPTY[min(empty, len(EMPTY)) - 1]


def pause_broken(broken: int) -> timedelta | None:
    """Until the next try, after so many pods that ended without a word; None for no other."""
    return BROKEN[broken - 1] if broken <= len(BROKEN) else None


def is_enough(job: Phase, files: int, *, last: bool) -> bool:
    """Whether a pod that has looked is to end: nothing can come any more, or nothing is there yet."""
    return last if job in FINAL else (not files or job not in WRITES)


def attempt_of(begun: float | None, starts: Mapping[int, datetime], newest: int) -> int:
    """The attempt in which a file was begun (seconds since 1970), by when the ranks of each started. A clock that is
    a second behind does no harm."""
    if begun is None:
        return newest
    before = [attempt for attempt, at in starts.items() if at.timestamp() <= begun + 1]
    return max(before, default=min(starts, default=newest))


class Folders:
    """Gives each series of an attempt to the folder that told it first; the same from another folder is another curve,
    named after its folder (`validation/epoch_loss`): writers put different runs of one tag side by side so."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def series(self, attempt: int, path: str, tag: str) -> str:
        """The name of the curve that a scalar of a file belongs to; "" for none."""
        folder = PurePosixPath(path).parent
        own = series_of(tag)
        if not own:
            return ""
        return self._taken(attempt, str(folder), own) or self._taken(
            attempt, str(folder), series_of(f"{folder.name}/{tag}")
        )

    def _taken(self, attempt: int, folder: str, series: str) -> str:
        key = f"{attempt}:{series}"
        if key not in self.known and series and self._is_room(series):
            self.known[key] = folder
        return series if self.known.get(key) == folder else ""

    def _is_room(self, series: str) -> bool:
        names = {key.partition(":")[2] for key in self.known}
        return series in names or len(names) < MOST_SERIES
