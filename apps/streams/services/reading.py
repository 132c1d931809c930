"""Pages of a topic's kept log: by number, around a moment or a step, and what is found in it within a bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from apps.adapters.errors import OutsideError
from apps.streams.domain.frames import LogFrame, LogLine, Source, shortened
from apps.streams.domain.lines import Block, Filter, Matcher
from apps.streams.services import kept
from apps.streams.services.asking import Question, Range
from apps.streams.services.ring import Extent

SEARCH_SECONDS, KNOWN_SECONDS = 2.0, 20.0
WROTE_LINES = 5000
TEXT_LINES = 2000

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class _Piece:
    """The lines of a frame that are wanted: their places in it, ascending."""

    block: Block
    taken: Sequence[int]

    @property
    def offset(self) -> int:
        """That of the first; a frame may be nothing but a gap."""
        return self.taken[0] if self.taken else 0

    def told(self, *, filtered: bool, missing: int) -> dict[str, Any]:
        frame, first = self.block.frame, self.block.first
        told: dict[str, Any] = {"src": frame.src, "lines": [shortened(frame.lines[at]) for at in self.taken]}
        if filtered:
            told["ns"] = [first + index for index in self.taken]
        else:
            told["n"] = first + self.offset
        if frame.gap and self.offset == 0:
            told["gap"] = frame.gap
        if missing:
            told["missing"] = missing
        return told


@dataclass
class _Sweep:
    """A look through lines `low` to `high`, newest first if `back`, until `limit` lines are found or the time is over.
    What has been looked at reaches from `begin` to `end`."""

    back: bool
    low: int
    high: int
    limit: int
    pieces: list[_Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin, self.end = (self.high + 1, self.high) if self.back else (self.low, self.low - 1)

    def run(self, topic: str, wanted: Filter, until: float) -> None:
        matcher = Matcher(wanted) if wanted else None
        if self.low > self.high or self.limit <= 0:
            return
        left = self.limit
        blocks = kept.backwards(topic, self.high, wanted) if self.back else kept.forwards(topic, self.low, wanted)
        for block in blocks:
            if not block.frame.lines:
                if not matcher and self.low - 1 <= block.last <= self.high:
                    self.pieces.append(_Piece(block, ()))
                continue
            if block.last < self.low or block.first > self.high:
                break
            taken = self._taken(block, matcher)
            fits = taken[-left:] if self.back else taken[:left]
            if fits:
                self.pieces.append(_Piece(block, fits))
            left -= len(fits)
            if not left:
                self._looked(block.first + fits[0], block.first + fits[-1])
                break
            self._looked(block.first, block.last)
            if matcher and time.monotonic() > until:
                break
        else:
            self._looked(self.low, self.high)
        if self.back:
            self.pieces.reverse()

    def _looked(self, first: int, last: int) -> None:
        if self.back:
            self.begin = max(first, self.low)
        else:
            self.end = min(last, self.high)

    def _taken(self, block: Block, matcher: Matcher | None) -> Sequence[int]:
        """Places of the wanted lines that lie in between."""
        inside = range(max(0, self.low - block.first), min(len(block.frame.lines), self.high - block.first + 1))
        if matcher is None:
            return inside
        return [index for index in matcher.indices(block.frame) if index in inside]


def lines(topic: str, asked: Question) -> dict[str, Any]:
    """A page of the log, oldest line first.

    `frames` as the socket sends them, each with `n`, the number of its first line (with a filter `ns`, that of each),
    and with `missing`, where so many lines before it are gone; `first`, `last`, `total`; whether there are `older`
    and `newer` ones; `at`, the line that was jumped to; with a filter `searched`, what of the log was looked through;
    `kept_since`, the oldest line that is kept, and a `notice` about that. `before` is what to ask for the next older
    page with, `cursor` what to follow on from with the socket after a page of the newest. Raises RedisError,
    OutsideError.
    """
    extent = kept.extent(topic)
    at = _jump(topic, asked, extent)
    until = time.monotonic() + SEARCH_SECONDS
    sweeps = _sweeps(asked, at, extent)
    for sweep in sweeps:
        sweep.run(topic, asked.wanted, until)
    return _told(sweeps, extent, at, filtered=bool(asked.wanted))


def _sweeps(asked: Question, at: int | None, extent: Extent) -> list[_Sweep]:
    first, last = extent.first, extent.last
    if at is not None:
        older = asked.limit // 2
        return [_Sweep(True, first, at - 1, older), _Sweep(False, at, last, asked.limit - older)]
    if asked.after is not None:
        return [_Sweep(False, max(asked.after + 1, first), last, asked.limit)]
    return [_Sweep(True, first, last if asked.before is None else min(asked.before - 1, last), asked.limit)]


def _told(sweeps: Sequence[_Sweep], extent: Extent, at: int | None, *, filtered: bool) -> dict[str, Any]:
    frames: list[dict[str, Any]] = []
    numbers: list[int] = []
    for piece in [piece for sweep in sweeps for piece in sweep.pieces]:
        first = piece.block.first + piece.offset
        missing = first - numbers[-1] - 1 if numbers and not filtered else 0
        frames.append(piece.told(filtered=filtered, missing=missing))
        if piece.taken:
            numbers += (first, piece.block.first + piece.taken[-1])
    begin, end = sweeps[0].begin, sweeps[-1].end
    older, newer = begin > extent.first, end < extent.last
    told: dict[str, Any] = {
        "frames": frames,
        "first": numbers[0] if numbers else None,
        "last": numbers[-1] if numbers else None,
        "total": extent.last,
        "older": older,
        "newer": newer,
        "at": at,
        "kept_since": extent.first,
        "notice": _notice(extent),
        "before": str(begin) if older else None,
        "cursor": str(extent.cursor) if extent.cursor and not newer else None,
    }
    if filtered:
        told["searched"] = {"from": begin, "to": end, "complete": not (newer if not sweeps[-1].back else older)}
    return told


def _notice(extent: Extent) -> str | None:
    if extent.is_cut:
        return _("The newest lines cannot be read now. Try again in a moment.")
    if extent.first == 1:
        return None
    return _("The log is kept from line {n} on; older lines are gone.").format(n=extent.first)


def _jump(topic: str, asked: Question, extent: Extent) -> int | None:
    """The line to jump to; None for none, or where there is no such step, or nothing at all."""
    if asked.line is not None:
        return min(max(asked.line, extent.first), extent.last) if extent.first <= extent.last else None
    if asked.at is not None:
        return _line_at(kept.since(topic, asked.at), asked.at)
    return None if asked.step is None else _line_of_step(kept.of_step(topic, asked.step), asked.step)


def _line_at(blocks: Iterable[Block], moment: int) -> int | None:
    """The first line of this time (ns) or later, or the newest where all are older."""
    last = None
    for block in blocks:
        for index, line in enumerate(block.frame.lines):
            if line.at >= moment:
                return block.first + index
        last = block.last
    return last


def _line_of_step(blocks: Iterable[Block], step: int) -> int | None:
    """The first line of a step from the source that spoke of it last. `blocks` go back."""
    found: int | None = None
    who: Source | None = None
    for block in blocks:
        source, steps = block.frame.src, [line.step for line in block.frame.lines]
        if step in steps and who in (None, source):
            found, who = block.first + steps.index(step), source
        elif source == who and any(one is not None for one in steps):
            break
    return found


def wrote(topic: str, attempt: int, rank: int) -> bool:
    """Whether a rank has lines of an attempt among the newest that are kept; True while they cannot be read."""
    asked = Question(limit=WROTE_LINES)
    try:
        frames = lines(topic, asked)["frames"]
    except (RedisError, OutsideError):
        return True
    return any(
        frame["src"].attempt == attempt and any(line.rank == rank for line in frame["lines"]) for frame in frames
    )


def known(topic: str, wanted: Filter, places: Set[tuple[str, int]]) -> tuple[set[tuple[str, int]], bool]:
    """Which of some places, each a pod and a time (ns), kept lines have that are wanted, and whether there was time to
    look at all of these. Raises RedisError, OutsideError."""
    found: set[tuple[str, int]] = set()
    matcher, until = Matcher(wanted), time.monotonic() + KNOWN_SECONDS
    for block in kept.forwards(topic, 1, wanted):
        pod, lines = block.frame.src.pod, block.frame.lines
        found.update(place for at in matcher.indices(block.frame) if (place := (pod, lines[at].at)) in places)
        if len(found) == len(places):
            break
        if time.monotonic() > until:
            return found, False
    return found, True


def encoded(told: dict[str, Any]) -> bytes:
    """A page as JSON."""
    return _encode(told)


def whole_line(topic: str, number: int) -> str | None:
    """All that is kept of one line; None where it is not kept. Raises RedisError, OutsideError."""
    for block in kept.forwards(topic, number, Filter()):
        if block.first <= number <= block.last:
            return block.frame.lines[number - block.first].text
        if block.first > number:
            break
    return None


def text(topic: str, asked: Range) -> Iterator[bytes]:
    """Lines as a text, in pieces: those of a range that are wanted, with the time, the pod and the rank of each.

    It ends with the line that was the newest when it was asked for. Raises RedisError, OutsideError.
    """
    extent = kept.extent(topic)
    last = extent.last if asked.end is None else min(asked.end, extent.last)
    return _text(topic, max(asked.start, extent.first), last, asked.wanted)


def _text(topic: str, low: int, high: int, wanted: Filter) -> Iterator[bytes]:
    gathered: list[str] = []
    matcher = Matcher(wanted) if wanted else None
    for block in kept.forwards(topic, low, wanted) if low <= high else ():
        if block.first > high:
            break
        frame = block.frame
        places = matcher.indices(frame) if matcher else range(len(frame.lines))
        gathered += [_line_text(frame, frame.lines[at]) for at in places if low <= block.first + at <= high]
        if len(gathered) >= TEXT_LINES:
            yield "".join(gathered).encode()
            gathered = []
    yield "".join(gathered).encode()


def _line_text(frame: LogFrame, line: LogLine) -> str:
    """A line in the platform's own format, as far as its parts are known."""
    at = datetime.fromtimestamp(line.at // 1_000_000 / 1e3, UTC)
    rank = frame.src.rank if line.rank is None else line.rank
    parts = [f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}", line.level, frame.src.pod]
    parts += ["" if rank is None else f"Rank-{rank}", "" if line.step is None else f"Step-{line.step}"]
    return f"{' '.join(f'[{part}]' for part in parts if part)} {line.text}\n"
