"""Going on with a log exactly where it was left, though the server can only be asked for whole seconds.

A place is the last line that was taken: its time and checksum, and how many lines equal to it bear the same time. When
the log is read again from the second of that line, everything up to it is dropped. Times alone would not do: two pipes
are stamped independently, so lines may stand out of order, and a clock may stand still.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from apps.clusters.domain.loglines import LogLine

SAME_TIME_LIMIT = 65_536


@dataclass(frozen=True)
class Place:
    """How far a container's log has been taken.

    `restarts` says which run of the container; `at` and `check` are the last line's time (ns) and checksum, `equal` how
    many lines like it were taken, `latest` the latest time of any line. `done` when there will be no more of this run.
    """

    restarts: int = 0
    at: int = 0
    check: int = 0
    equal: int = 0
    latest: int = 0
    done: bool = False

    def dump(self) -> str:
        return json.dumps([self.restarts, self.at, self.check, self.equal, self.latest, int(self.done)])

    @classmethod
    def load(cls, text: str) -> Place | None:
        """None for "" (never begun)."""
        if not text:
            return None
        restarts, at, check, equal, latest, done = json.loads(text)
        return cls(restarts, at, check, equal, latest, bool(done))

    @property
    def since_time(self) -> str:
        """What to ask the server for: the second of the last line, "" from the start."""
        if not self.at:
            return ""
        return datetime.fromtimestamp(self.at // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def ended(self) -> Place:
        return replace(self, done=True)


@dataclass(frozen=True)
class Taken:
    """A line that is new; `gap_since` (ns) if lines between that time and this one may have been missed."""

    line: LogLine
    gap_since: int | None = None


class Resumer:
    """Lets through what is new after `place`, and moves it along."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._seeking = place.at > 0
        self._matches = 0
        self._same_time: Counter[int] = Counter()

    def take(self, line: LogLine) -> Taken | None:
        """None for a line that was taken before."""
        gap_since = None
        if self._seeking:
            if self._is_known(line):
                return None
            # The place itself is gone: the file was rotated away, perhaps with lines nobody has seen.
            self._seeking, gap_since = False, self.place.latest
        self._move_to(line, zlib.crc32(line.text))
        return Taken(line, gap_since)

    def _is_known(self, line: LogLine) -> bool:
        place = self.place
        if line.at == place.at:
            check = zlib.crc32(line.text)
            self._same_time[check] += 1
            if check == place.check:
                self._matches += 1
                self._seeking = self._matches < place.equal
            return True
        return line.at <= place.latest

    def _move_to(self, line: LogLine, check: int) -> None:
        if line.at != self.place.at:
            self._same_time.clear()
        if len(self._same_time) < SAME_TIME_LIMIT or check in self._same_time:
            self._same_time[check] += 1
        equal = max(1, self._same_time[check])
        self.place = Place(self.place.restarts, line.at, check, equal, max(self.place.latest, line.at))
