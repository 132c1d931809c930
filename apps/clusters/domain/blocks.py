"""Many lines of a container's log at once, for what would cost too much line by line.

`stamped` reads the times of all lines in a few steps over arrays, where all of them have one form; `Block.odd` are the
lines that have to be looked at singly: with controls, colours, progress bars, no UTF-8, or very long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from apps.clusters.domain.loglines import PIECE_BYTES, STAMP, nanoseconds

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

WINDOW = 512
"""Bytes behind a line's beginning that may be looked at, whatever its length."""
LONGEST = 4000
"""Bytes of a line that is not odd: fewer than the characters in which a line is searched."""
NEWLINE, _TAB = 10, 9
_DAY = 11
"""Bytes of a stamp up to its hour."""
_FIXED = "dddd-dd-ddTdd:dd:dd.ddddddddd"
"""A stamp's form, but for its zone."""
_WEIGHTS = np.array([36_000, 3_600, 0, 600, 60, 0, 10, 1, 0, *([0] * 9)], dtype=np.int64) * 1_000_000_000 + np.array(
    [0] * 9 + [10**n for n in range(8, -1, -1)], dtype=np.int64
)
"""What each digit between a stamp's day and its zone is worth, in nanoseconds."""


def _odd_pairs() -> Flags:
    """Of two bytes of UTF-8 whether a character that begins with them must be looked at: one that is not seen or turns
    others round, or that has a letter of ASCII as its other case."""
    odd = np.zeros((256, 256), dtype=np.bool_)
    odd[0xC2, 0x80:0xA0] = odd[0xC4] = odd[0xC5] = odd[0xD8, 0x9C] = True
    odd[0xE2, [0x80, 0x81, 0x84]] = odd[0xEF, [0xBB, 0xBF]] = True
    return odd


_ODD_PAIRS = _odd_pairs()


@dataclass(frozen=True)
class Block:
    """Whole lines, each with its newline: where the text of each begins and ends in `data`, and its time (ns)."""

    data: bytes
    starts: Numbers
    ends: Numbers
    at: Numbers

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def padded(self) -> Bytes:
        """All of `data`, and a window more."""
        return np.frombuffer(self.data + bytes(WINDOW), dtype=np.uint8)

    @cached_property
    def latest(self) -> int:
        """The latest time of a line."""
        return int(self.at.max())

    def raw(self, index: int) -> bytes:
        """A line's text as it stands."""
        return self.data[self.starts[index] : self.ends[index]]

    def text(self, index: int) -> bytes:
        """The text without the return that may stand at its end."""
        return self.raw(index).removesuffix(b"\r")

    def windows(self, starts: Numbers, width: int) -> Bytes:
        """So many bytes from each of these places on."""
        return _windows(self.padded, starts, width)

    def holding(self, places: Numbers) -> Numbers:
        """The lines in which these places of `data` are."""
        return np.searchsorted(self.ends, places)

    def odd(self) -> Flags:
        """The lines that have to be looked at singly."""
        all_bytes, data = self.padded[: len(self.data)], self.data
        odd = self.ends - self.starts > LONGEST
        low = all_bytes < 0x20
        if np.count_nonzero(low) != len(self) + data.count(b"\t"):
            odd[self.holding(np.flatnonzero(low & (all_bytes != _TAB) & (all_bytes != NEWLINE)))] = True
        if b"\x7f" in data:
            odd[self.holding(np.flatnonzero(all_bytes == 0x7F))] = True
        if not data.isascii():
            high = np.flatnonzero(all_bytes >= 0x80)
            if _is_utf8(data):
                high = high[_ODD_PAIRS[all_bytes[high], all_bytes[high + 1]]]
            odd[self.holding(high)] = True
        return odd


def stamped(data: bytes) -> Block | None:
    """The lines of `data`, which ends with a newline; None where their times have not all the form of the first one's,
    or one is as long as a piece of a line."""
    first = STAMP.match(data)
    if first is None or first.end() < len(_FIXED):
        return None
    width = first.end()
    padded = np.frombuffer(data + bytes(width), dtype=np.uint8)
    ends = np.flatnonzero(padded == NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lowest = padded[:width].copy()
    span = np.zeros(width, dtype=np.uint8)
    for place, sign in enumerate(_FIXED):
        if sign == "d" and place >= _DAY:
            lowest[place], span[place] = ord("0"), 5 if place in (14, 17) else 9
    digits = _windows(padded, starts, width) - lowest
    if not (digits <= span).all() or int((ends - starts).max()) >= PIECE_BYTES:
        return None
    of_day = digits[:, _DAY : len(_FIXED)].astype(np.int64) @ _WEIGHTS
    if int(of_day.max()) >= 86_400_000_000_000:
        return None
    midnight = STAMP.match(data[:_DAY] + b"00:00:00" + data[len(_FIXED) : width])
    assert midnight is not None
    return Block(data, starts + width, ends, of_day + nanoseconds(midnight))


def parts(data: bytes, size: int) -> Iterator[bytes]:
    """Whole lines in parts of about so many bytes."""
    at = 0
    while at < len(data):
        end = len(data)
        if end - at > size:
            end = data.rfind(b"\n", at, at + size) + 1 or data.index(b"\n", at + size) + 1
        yield data[at:end]
        at = end


def _windows(padded: Bytes, starts: Numbers, width: int) -> Bytes:
    every: Bytes = np.ndarray((len(padded) - width + 1, width), np.uint8, padded, 0, (1, 1))
    return every[starts]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
