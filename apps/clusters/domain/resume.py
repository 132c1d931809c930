"""Going on with a log exactly where it was left, though the server can only be asked for whole seconds.

A place is the last line that was taken: its time and checksum, and how many lines equal to it bear the same time. When
the log is read again from the second of that line, everything up to it is dropped. Times alone would not do: two pipes
are stamped independently, so lines may stand out of order, and a clock may stand still.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from apps.clusters.domain.blocks import Block
from apps.clusters.domain.loglines import LogLine

SECOND = 1_000_000_000
SEEN_LIMIT = 65_536


@dataclass(frozen=True)
class Place:
    """How far a container's log has been taken.

    `restarts` says which run of the container; `at` and `check` are the last line's time (ns) and checksum, `equal` how
    many lines like it were taken, `latest` the latest time of any line. `done` when there will be no more of this run.
    `fresh` while no line of this run was taken: the last line is one of the run before, or of this one taken for it (a
    cluster may tell of a restart later than it shows the new log).
    """

    restarts: int = 0
    at: int = 0
    check: int = 0
    equal: int = 0
    latest: int = 0
    done: bool = False
    fresh: bool = False

    def dump(self) -> str:
        fields = [self.restarts, self.at, self.check, self.equal, self.latest, int(self.done)]
        return json.dumps([*fields, 1] if self.fresh else fields)

    @classmethod
    def load(cls, text: str) -> Place | None:
        """None for "" (never begun)."""
        if not text:
            return None
        restarts, at, check, equal, latest, done, *fresh = json.loads(text)
        return cls(restarts, at, check, equal, latest, bool(done), bool(fresh))

    @property
    def since_time(self) -> str:
        """What to ask the server for: the second of the last line, "" from the start."""
        if not self.at:
            return ""
        return datetime.fromtimestamp(self.at // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def ended(self) -> Place:
        return replace(self, done=True)

    def next(self, restarts: int) -> Place:
        """The beginning of a later run."""
        return replace(self, restarts=restarts, done=False, fresh=self.at > 0)


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
        # Lines by time and checksum, of the seconds that can be asked for again: equal ones need not stand together.
        self._seen: Counter[tuple[int, int]] = Counter()
        self._blocks: deque[tuple[int, Block]] = deque()
        """The same of lines that were taken many at once, behind the latest time of each block: nearly always none of
        them is ever counted."""
        self._in_all_blocks = 0
        self._oldest = 0

    @property
    def found(self) -> bool:
        """Whether the place has been reached."""
        return not self._seeking

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

    def take_all(self, block: Block) -> None:
        """Let many lines through; only where the place has been `found`."""
        at, text, place = int(block.at[-1]), block.text(len(block) - 1), self.place
        self._forget_before(block.latest // SECOND - 1)
        self._blocks.append((block.latest, replace(block)))  # a copy of its fields: not of what was worked out
        self._in_all_blocks += len(block)
        while self._in_all_blocks > SEEN_LIMIT and len(self._blocks) > 1:
            self._drop_block()
        check = zlib.crc32(text)
        equal = self._seen[at, check] + self._in_blocks(at, check)
        self.place = Place(place.restarts, at, check, equal, max(place.latest, block.latest))

    def _in_blocks(self, at: int, check: int) -> int:
        """How many lines like this one were taken with others."""
        return sum(
            zlib.crc32(block.text(line)) == check
            for latest, block in self._blocks
            if latest >= at
            for line in np.flatnonzero(block.at == at).tolist()
        )

    def _drop_block(self) -> None:
        self._in_all_blocks -= len(self._blocks.popleft()[1])

    def _is_known(self, line: LogLine) -> bool:
        place, check = self.place, zlib.crc32(line.text)
        if line.at == place.at:
            self._count(line.at, check)
            if check == place.check:
                self._matches += 1
                self._seeking = self._matches < place.equal
            return True
        if line.at <= place.latest:
            self._count(line.at, check)
            return True
        return False

    def _move_to(self, line: LogLine, check: int) -> None:
        equal = self._count(line.at, check)
        self.place = Place(self.place.restarts, line.at, check, equal, max(self.place.latest, line.at))

    def _count(self, at: int, check: int) -> int:
        """How many lines like this one there were, this one included; 1 where too many are kept to count it."""
        self._forget_before(at // SECOND - 1)
        if len(self._seen) >= SEEN_LIMIT and (at, check) not in self._seen:
            return 1
        self._seen[at, check] += 1
        return self._seen[at, check] + self._in_blocks(at, check)

    def _forget_before(self, second: int) -> None:
        """Lines of earlier seconds cannot be asked for again."""
        if second <= self._oldest:
            return
        self._oldest = second
        self._seen = Counter({key: n for key, n in self._seen.items() if key[0] // SECOND >= second})
        while self._blocks and self._blocks[0][0] // SECOND < second:
            self._drop_block()
