"""From the bytes of a container's log to lines with a time, in bounded memory.

The log is asked for with timestamps, so each line reads `2026-11-29T20:00:00.123456789Z text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

TEXT_LIMIT = 1 << 20
"""Bytes of a line that are kept."""
PIECE_BYTES = 16 << 10
"""Where container runtimes cut a long line into pieces."""
STAMP_LIMIT = 48
DRAWN_LIMIT = 4 << 10
"""Bytes kept of what was drawn over, when a line that redraws itself grows too long to be kept."""
PIECE_NANOSECONDS = 5_000_000
"""Pieces of one line are written this close together."""

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


@dataclass(frozen=True)
class LogLine:
    """`at` is in nanoseconds since 1970; `text` is at most 1 MiB; `cut` counts the bytes left out; `over` says
    that it goes on where the line before it was still being drawn."""

    at: int
    text: bytes
    cut: int = 0
    over: bool = False


class Splitter:
    """Cuts chunks into lines. Keeps no more of a line than is shown, so a line without end costs nothing."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._rest, self._cut = bytearray(), 0
        self._tail = b""
        self._grown = False
        """Whether the line was once too long: what was drawn over in it is no longer whole."""

    def feed(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """Complete lines, each with the number of bytes that were left out of it."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._keep(chunk)
            return []
        first, *others = head.split(b"\n")
        self._keep(first)
        lines = [self._done(), *(fitted(line, TEXT_LIMIT + STAMP_LIMIT) for line in others)]
        self._begin()
        self._keep(tail)
        return lines

    def whole(self, chunk: bytes) -> bytes | None:
        """Complete lines as they stand, newlines and all. None, and nothing is taken, where `feed` is needed: there is
        none, or one may be too long."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline or self._grown or len(self._rest) + len(head) > TEXT_LIMIT:
            return None
        lines = bytes(self._rest) + head + newline
        self._begin()
        self._keep(tail)
        return lines

    def rest(self) -> list[tuple[bytes, int]]:
        """What a stream that ended well left without a newline."""
        return [self._done()] if self._rest else []

    def _done(self) -> tuple[bytes, int]:
        rest = bytes(self._rest)
        return (
            (rest, self._cut) if self._cut or not self._grown else fitted(rest, TEXT_LIMIT + STAMP_LIMIT, always=True)
        )

    def _keep(self, part: bytes) -> None:
        limit = TEXT_LIMIT + STAMP_LIMIT
        if self._cut:
            tail = self._tail + part
            if _redrawn(tail) < 0:
                self._cut, self._tail = self._cut + len(part), tail[-DRAWN_LIMIT:]
                return
            part, self._cut = tail, 0
            del self._rest[_begin_of_text(bytes(self._rest[:STAMP_LIMIT])) :]
        self._rest += part
        if len(self._rest) > limit:
            line = bytes(self._rest)
            kept, self._cut = fitted(line, limit)
            self._rest, self._grown = bytearray(kept), True
            self._tail = line[-DRAWN_LIMIT:] if self._cut else b""


def fitted(line: bytes, limit: int, *, always: bool = False) -> tuple[bytes, int]:
    """As much of a line as is kept, and how many bytes of what would be seen are missing. Of one that is too long (or
    `always`) and redraws itself, only the end of what was drawn over is kept, beside the limit."""
    if len(line) <= limit and not always:
        return line, 0
    redrawn = _redrawn(line)
    if redrawn < 0:
        return line[:limit], max(0, len(line) - limit)
    start = _begin_of_text(line)
    drawn, seen = line[max(start, redrawn - DRAWN_LIMIT) : redrawn], line[redrawn:]
    return line[:start] + drawn + seen[:limit], max(0, len(seen) - limit)


def _redrawn(line: bytes) -> int:
    """Where the last state of a line that redraws itself begins, or -1. A last return is that of the line's end."""
    return line.rfind(b"\r", 0, -1)


def _begin_of_text(line: bytes) -> int:
    stamp = STAMP.match(line)
    return stamp.end() if stamp else 0


def stamped(lines: Iterable[tuple[bytes, int]]) -> Iterator[LogLine]:
    """Read the time of each line. What bears none is the server's own words about the log, not a line of it."""
    for raw, cut in lines:
        match = STAMP.match(raw)
        if match is None:
            continue
        text, over = fitted(raw[match.end() :], TEXT_LIMIT)
        yield LogLine(nanoseconds(match), text.removesuffix(b"\r"), cut + over)


def nanoseconds(stamp: re.Match[bytes]) -> int:
    """Trailing zeros of the fraction may have been trimmed, so stamps are compared as numbers only."""
    seconds, fraction, zone = stamp.groups()
    return _seconds(seconds, zone) * 1_000_000_000 + int((fraction or b"0").ljust(9, b"0"))


@lru_cache(maxsize=64)
def _seconds(seconds: bytes, zone: bytes) -> int:
    zone = b"+00:00" if zone == b"Z" else zone
    return int(datetime.fromisoformat((seconds + zone).decode()).timestamp())


class Joiner:
    """Puts the pieces of a long line together again: a piece of exactly 16 KiB goes on in the next one.

    Only what is shown is kept, so a later piece only adds to `cut` of the line before, unless it draws over it.
    A progress bar that never ends its line comes as pieces far apart: each draws over the one before.
    """

    def __init__(self) -> None:
        self._held: LogLine | None = None
        self._open = False
        self._drawing = False

    @property
    def is_idle(self) -> bool:
        """Whether the next line is one of its own, whatever came before."""
        return self._held is None and not self._drawing

    def feed(self, line: LogLine) -> list[LogLine]:
        """Lines that are complete now."""
        held, drawing = self._held, self._drawing
        whole = len(line.text) != PIECE_BYTES or line.cut > 0
        self._drawing = not whole and b"\r" in line.text
        if held is not None and self._open and line.at - held.at <= PIECE_NANOSECONDS:
            self._held = _joined(held, line)
            self._open = not whole
            return self.flush() if whole else []
        line = replace(line, over=True) if drawing else line
        done = self.flush()
        if whole:
            return [*done, line]
        self._held, self._open = line, True
        return done

    def flush(self) -> list[LogLine]:
        """What is held back, when nothing more is to come for now."""
        held, self._held, self._open = self._held, None, False
        return [held] if held else []


def _joined(line: LogLine, piece: LogLine) -> LogLine:
    redrawn = _redrawn(piece.text)
    if line.cut and redrawn < 0:
        return replace(line, at=piece.at, cut=line.cut + len(piece.text) + piece.cut)
    whole = piece.text[redrawn:] if line.cut else line.text + piece.text
    text, cut = fitted(whole, TEXT_LIMIT)
    return replace(line, at=piece.at, text=text, cut=cut + piece.cut)


def decoded(line: LogLine) -> str:
    """The text, with replacement characters for what is no UTF-8; of a cut line it says how much is missing."""
    text = line.text.decode("utf-8", "replace")
    return f"{text} … (+{line.cut:,} bytes)" if line.cut else text
