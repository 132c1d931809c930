"""From the bytes of a container's log to lines with a time, in bounded memory.

The log is asked for with timestamps, so each line reads `2026-11-29T20:00:00.123456789Z text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

TEXT_LIMIT = 16 << 10
"""Bytes of a line that are kept. It is also where container runtimes cut a long line into pieces."""
STAMP_LIMIT = 48
PIECE_NANOSECONDS = 5_000_000
"""Pieces of one line are written this close together."""

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


@dataclass(frozen=True)
class LogLine:
    """`at` is in nanoseconds since 1970; `text` is at most 16 KiB; `cut` counts the bytes that were left out."""

    at: int
    text: bytes
    cut: int = 0


class Splitter:
    """Cuts chunks into lines. Keeps no more of a line than is shown, so a line without end costs nothing."""

    def __init__(self) -> None:
        self._rest = b""
        self._cut = 0

    def feed(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """Complete lines, each with the number of bytes that were left out of it."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._keep(chunk)
            return []
        first, *others = head.split(b"\n")
        self._keep(first)
        lines = [(self._rest, self._cut)]
        limit = TEXT_LIMIT + STAMP_LIMIT
        lines += [(line[:limit], max(0, len(line) - limit)) for line in others]
        self._rest, self._cut = b"", 0
        self._keep(tail)
        return lines

    def rest(self) -> list[tuple[bytes, int]]:
        """What a stream that ended well left without a newline."""
        return [(self._rest, self._cut)] if self._rest else []

    def _keep(self, part: bytes) -> None:
        room = TEXT_LIMIT + STAMP_LIMIT - len(self._rest)
        self._rest += part[:room]
        self._cut += max(0, len(part) - room)


def stamped(lines: Iterable[tuple[bytes, int]]) -> Iterator[LogLine]:
    """Read the time of each line. What bears none is the server's own words about the log, not a line of it."""
    for raw, cut in lines:
        match = _STAMP.match(raw)
        if match is None:
            continue
        text = raw[match.end() :]
        over = max(0, len(text) - TEXT_LIMIT)
        yield LogLine(nanoseconds(match), text[:TEXT_LIMIT].removesuffix(b"\r"), cut + over)


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

    Only what is shown is kept, so a later piece only adds to `cut` of the line that went before.
    """

    def __init__(self) -> None:
        self._held: LogLine | None = None
        self._open = False

    def feed(self, line: LogLine) -> list[LogLine]:
        """Lines that are complete now."""
        held = self._held
        whole = len(line.text) < TEXT_LIMIT or line.cut > 0
        if held is not None and self._open and line.at - held.at <= PIECE_NANOSECONDS:
            self._held = LogLine(line.at, held.text, held.cut + len(line.text) + line.cut)
            self._open = not whole
            return self.flush() if whole else []
        done = self.flush()
        if whole:
            return [*done, line]
        self._held, self._open = line, True
        return done

    def flush(self) -> list[LogLine]:
        """What is held back, when nothing more is to come for now."""
        held, self._held, self._open = self._held, None, False
        return [held] if held else []


def decoded(line: LogLine) -> str:
    """The text, with replacement characters for what is no UTF-8; of a cut line it says how much is missing."""
    text = line.text.decode("utf-8", "replace")
    return f"{text} … (+{line.cut:,} bytes)" if line.cut else text
