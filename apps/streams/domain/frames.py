"""What travels: frames of log lines and of points, and the cursor that says how far a reader has come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec.structs import replace

Value = float | str
"""A number; not-a-number and infinities as "NaN", "Infinity", "-Infinity", because JSON has none of them."""


class Kind(StrEnum):
    LOG = "log"
    POINTS = "points"


class Source(msgspec.Struct, frozen=True):
    """Where lines come from."""

    rank: int | None
    attempt: int
    pod: str


class Look(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a line is besides its text. `styles` are (from, up to, names) of characters that have a colour or a weight;
    `over` says that the line draws over the one before it of the same source, as a progress bar does; `cut` is how many
    bytes the whole text has, where only its beginning is here."""

    styles: Sequence[tuple[int, int, str]] = ()
    over: bool = False
    cut: int = 0


class LogLine(msgspec.Struct, array_like=True, frozen=True):
    """`at` is in nanoseconds since 1970; `look` is None for a line that is nothing but its text."""

    at: int
    level: str
    rank: int | None
    step: int | None
    text: str
    look: Look | None = None


class Gap(msgspec.Struct, frozen=True):
    """Lines may be missing between these two moments (nanoseconds); the log was rotated away unread."""

    start: int
    end: int


class LogFrame(msgspec.Struct, frozen=True, omit_defaults=True):
    """`gap`, where there is one, lies before the first line; `long` says that a line has more than is shown at once."""

    src: Source
    lines: Sequence[LogLine]
    gap: Gap | None = None
    long: bool = False


class LivePoint(msgspec.Struct, array_like=True, frozen=True):
    """`at` is in milliseconds since 1970."""

    series: str
    step: int
    value: Value
    at: int


class PointsFrame(msgspec.Struct, frozen=True):
    src: Source
    points: Sequence[LivePoint]


Frame = LogFrame | PointsFrame

SHOWN_CHARACTERS = 16 << 10
"""Of a line, in a page; the whole is asked for singly."""
_LONG = b'"long":true}'

_encode = msgspec.json.Encoder().encode
unpack_log = msgspec.json.Decoder(LogFrame).decode
"""A log frame from the body it is stored as."""


@dataclass(frozen=True)
class Packed:
    """A frame as it is stored: `count` is the number of log lines in it."""

    kind: Kind
    count: int
    body: bytes


def pack(frame: Frame) -> Packed:
    if isinstance(frame, LogFrame):
        if any(len(line.text) > SHOWN_CHARACTERS for line in frame.lines):
            frame = replace(frame, long=True)
        return Packed(Kind.LOG, len(frame.lines), _encode(frame))
    return Packed(Kind.POINTS, 0, _encode(frame))


def shortened(line: LogLine) -> LogLine:
    """A line as it is sent to a page: of a long one the beginning, and how long it is."""
    if len(line.text) <= SHOWN_CHARACTERS:
        return line
    look = line.look or Look()
    styles = [
        (start, min(end, SHOWN_CHARACTERS), names) for start, end, names in look.styles if start < SHOWN_CHARACTERS
    ]
    look = Look(styles, look.over, len(line.text.encode()))
    return replace(line, text=line.text[:SHOWN_CHARACTERS], look=look)


def shortened_body(body: bytes) -> bytes:
    """The stored body of a log frame as it is sent to a page."""
    if not body.endswith(_LONG):
        return body
    frame = unpack_log(body)
    return _encode(LogFrame(frame.src, [shortened(line) for line in frame.lines], frame.gap))


def jsonable(value: float) -> Value:
    """A number as JSON can carry it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@dataclass(frozen=True, order=True)
class Cursor:
    """The place after an entry: the buffer's birth mark, the entry's id, and the number of lines up to and with it.

    Readers treat its text as opaque. The count makes a gap measurable, the birth mark a lost buffer noticeable.
    """

    birth: str
    entry: tuple[int, int]
    lines: int

    def __str__(self) -> str:
        return f"{self.birth}.{self.entry[0]}-{self.entry[1]}.{self.lines}"

    @property
    def entry_id(self) -> str:
        return f"{self.entry[0]}-{self.entry[1]}"

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """None for anything that is no cursor; whoever sends that starts anew."""
        birth, _, rest = text.partition(".")
        entry, _, lines = rest.partition(".")
        first, _, second = entry.partition("-")
        numbers = (first, second, lines)
        if not birth.isalnum() or not all(n.isascii() and n.isdigit() and len(n) < 20 for n in numbers):
            return None
        return cls(birth, (int(first), int(second)), int(lines))


@dataclass(frozen=True)
class Entry:
    """A stored frame and the place after it; `source` and `place` where it says how far its source was read."""

    after: Cursor
    kind: Kind
    count: int
    body: bytes
    source: str = ""
    place: str = ""
    bytes: int = 0
    """Of all frames up to and with this one."""

    @property
    def lines_before(self) -> int:
        """How many lines the buffer had taken in before this entry."""
        return self.after.lines - self.count

    def last(self, count: int) -> Entry:
        """The same entry with no more than its last `count` lines."""
        if self.kind is not Kind.LOG or self.count <= count:
            return self
        frame = unpack_log(self.body)
        kept = LogFrame(frame.src, frame.lines[-count:] if count else [], long=frame.long)
        return Entry(self.after, self.kind, count, _encode(kept))
