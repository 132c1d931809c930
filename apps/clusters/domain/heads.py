"""What stands before the message of many lines at once.

The lines of one container begin alike but for times and steps. So a beginning is read once, as `lineformat` reads it,
and the next lines with the same bytes around their digits are known by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.clusters.domain.blocks import WINDOW, Block, Bytes, Flags, Numbers
from apps.clusters.domain.lineformat import LEVEL, LEVEL_CHARACTERS, PLATFORM, TORCHRUN, level_of

KNOWN = 8
"""Beginnings that are remembered."""
TRIED = 4
"""New ones that are read in a block; what has others again is read line by line."""
STEP_DIGITS = 18
_OPEN, _CLOSE, _SPACE, _TAB, _ZERO = b"[] \t0"
_STEP = np.frombuffer(b" [Step-", dtype=np.uint8)
_PLAIN: tuple[str, int | None] = "", None
_LEVEL = re.compile(LEVEL.pattern.encode())


Kind = tuple[str, int | None]
"""The level and the rank of a line."""


@dataclass(frozen=True)
class Head:
    """A beginning: the bytes up to its step's digits, or to its end where it has none, and between which values each
    may lie. `level` None: it is in the text."""

    lowest: Bytes
    span: Bytes
    level: str | None
    rank: int
    has_step: bool

    def fits(self, block: Block, lines: Numbers) -> Flags:
        width = len(self.lowest)
        signs = block.windows(block.starts[lines], width) - self.lowest <= self.span
        fits: Flags = np.ones(len(lines), np.bool_) if signs.all() else np.all(signs, axis=1)
        if self.level is not None and not self.has_step:
            after = block.windows(block.starts[lines] + width, len(_STEP))
            fits &= np.any(after != _STEP, axis=1)
        return fits


@dataclass(frozen=True)
class Columns:
    """What the lines of a block say, in order: level and rank (None for no own), the digits of the step (b"" for none)
    and the text. Of odd lines they say nothing."""

    kinds: Sequence[Kind]
    steps: Sequence[bytes]
    texts: list[bytes]


class Heads:
    """The beginnings that one container's lines have had."""

    def __init__(self) -> None:
        self._known: list[Head] = []

    def read(self, block: Block, odd: Flags) -> Columns:
        """The columns of a block. Lines that cannot be read here are made `odd`."""
        reading = _Reading(block, odd)
        left = np.flatnonzero(~odd & (block.padded[block.starts] == _OPEN))
        for head in self._known:
            if not left.size:
                break
            left = reading.claim(head, left)
        tried = 0
        for line in left.tolist():
            if reading.is_read[line]:
                continue
            text = block.raw(line).decode()
            match = PLATFORM.fullmatch(text) or TORCHRUN.match(text)
            if match is None:
                continue
            tried += 1
            new = _head(match) if tried <= TRIED else None
            if new is not None:
                reading.claim(new, left[left >= line])
                if reading.is_read[line]:
                    self._known = [*self._known, new][-KNOWN:]
            odd[line] |= not reading.is_read[line]
        return reading.columns()


class _Reading:
    def __init__(self, block: Block, odd: Flags) -> None:
        self.block, self.odd = block, odd
        self.is_read = np.zeros(len(block), dtype=np.bool_)
        self._kinds: list[Kind] = [_PLAIN] * len(block)
        self._bare = np.zeros(len(block), dtype=np.bool_)
        """Lines whose text may stand in brackets that do not belong to it."""
        self._begin = block.starts.copy()
        self._step_begin, self._step_end = np.zeros_like(block.starts), np.zeros_like(block.starts)

    def claim(self, head: Head, lines: Numbers) -> Numbers:
        """Take those of some lines that begin so; the others."""
        fits = head.fits(self.block, lines)
        mine, begin = lines[fits], self.block.starts[lines[fits]] + len(head.lowest)
        if head.has_step:
            digits = self.block.windows(begin, STEP_DIGITS + 1) - np.uint8(_ZERO)
            count = (digits > 9).argmax(axis=1)
            end = begin + count
            right = (count > 0) & (self.block.padded[end] == _CLOSE) & ((count == 1) | (digits[:, 0] > 0))
            self.odd[mine[~right]] = True
            self._step_begin[mine], self._step_end[mine] = begin, end
            begin = end + 1
        self._begin[mine] = begin + (self.block.padded[begin] == _SPACE)
        if head.level is None:
            after = self.block.padded[begin]
            self.odd[mine[(after == _TAB) | (after >= 0x80)]] = True
        self.is_read[mine], self._bare[mine] = True, head.level is not None
        kind = head.level or "", head.rank
        if len(mine) == len(self._kinds):
            self._kinds = [kind] * len(mine)
        else:
            for line in mine.tolist():
                self._kinds[line] = kind
        return lines[~fits]

    def columns(self) -> Columns:
        block, data, kinds = self.block, self.block.data, self._kinds
        begins, ends = self._begin.tolist(), block.ends.tolist()
        bracketed = self._bare & (block.padded[self._begin] == _OPEN) & (block.padded[block.ends - 1] == _CLOSE)
        for line in np.flatnonzero(bracketed).tolist():
            if data.find(b"[", begins[line] + 1, ends[line]) < 0:
                begins[line], ends[line] = begins[line] + 1, ends[line] - 1
        for line in np.flatnonzero(~self._bare & ~self.odd).tolist():
            kinds[line] = _level(block.raw(line)), kinds[line][1]
        steps = [b""] * len(block) if not self._step_end.any() else _cut(data, self._step_begin, self._step_end)
        return Columns(kinds, steps, [data[begin:end] for begin, end in zip(begins, ends, strict=True)])


def _cut(data: bytes, begins: Numbers, ends: Numbers) -> list[bytes]:
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _level(text: bytes) -> str:
    if text.isascii():
        in_bytes = _LEVEL.search(text[:LEVEL_CHARACTERS])
        return level_of(in_bytes[1].decode()) if in_bytes else ""
    found = LEVEL.search(text.decode()[:LEVEL_CHARACTERS])
    return level_of(found[1]) if found else ""


def _head(match: re.Match[str]) -> Head | None:
    """What a line begins with, as a head for others; None where other bytes may stand for the same."""
    groups, text = match.groupdict(), match.string
    step, rank = groups.get("step"), groups["rank"]
    end = match.start("step") if step else match.end("rank") + (1 if groups.get("level") else 2)
    begin, time = text[:end].encode(), groups.get("time", "")
    if not (rank + time + (step or "")).isascii() or len(begin) > WINDOW // 2:
        return None
    lowest, span = np.frombuffer(begin, dtype=np.uint8).copy(), np.zeros(len(begin), dtype=np.uint8)
    for place, sign in enumerate(time, start=1):
        if sign.isdigit():
            lowest[place], span[place] = _ZERO, 9
    level = groups.get("level")
    return Head(lowest, span, None if level is None else level_of(level), int(rank), bool(step))
