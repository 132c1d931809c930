"""Which of a log's small segments become one: as few rewrites as a tree of them needs, and none for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FAN = 8
"""So many segments of a size become one of the next: a line is written again at most five times."""
PACKED = 8
"""How much shorter a log is packed, where that was not kept."""


@dataclass(frozen=True)
class Piece:
    """A segment: lines `first` to `last`, of times `begins` to `ends` (ns), `raw` bytes long when unpacked."""

    pk: int
    first: int
    last: int
    begins: int
    ends: int
    raw: int

    @property
    def lines(self) -> int:
        return self.last - self.first + 1

    @property
    def tier(self) -> int:
        """How many times FAN goes into its lines."""
        tier, lines = 0, self.lines
        while lines >= FAN:
            tier, lines = tier + 1, lines // FAN
        return tier


@dataclass(frozen=True)
class Limits:
    """What a segment may hold at most; `span` in nanoseconds, for the lines of a segment go together when they are
    old."""

    lines: int
    raw: int
    span: int

    def is_small(self, piece: Piece) -> bool:
        return piece.lines < self.lines // 2 and piece.raw < self.raw // 2

    def hold(self, run: Sequence[Piece]) -> bool:
        span = max(piece.ends for piece in run) - min(piece.begins for piece in run)
        fits = sum(piece.lines for piece in run) <= self.lines and sum(piece.raw for piece in run) <= self.raw
        return fits and span <= self.span


def runs(pieces: Iterable[Piece], limits: Limits, *, is_over: bool) -> list[list[Piece]]:
    """Pieces to be made one, in order; those of the open end wait for more of their size unless the log `is_over`.

    What is closed by a piece that does not fit is merged for good: with its neighbours it does not fit either."""
    found: list[list[Piece]] = []
    group: list[Piece] = []
    for piece in pieces:
        follows = bool(group) and piece.first == group[-1].last + 1
        if follows and limits.is_small(piece) and limits.hold([*group, piece]):
            group.append(piece)
            continue
        found.append(group)
        group = [piece] if limits.is_small(piece) else []
    found += [group] if is_over else _of_one_size(group)
    return [run for run in found if len(run) > 1]


def _of_one_size(group: Sequence[Piece]) -> list[list[Piece]]:
    """Runs without a larger piece that have FAN of their largest size; of the smallest size first."""
    for tier in sorted({piece.tier for piece in group}):
        found: list[list[Piece]] = []
        run: list[Piece] = []
        for piece in group:
            if piece.tier <= tier:
                run.append(piece)
                continue
            found.append(run)
            run = []
        found.append(run)
        ready = [run for run in found if sum(piece.tier == tier for piece in run) >= FAN]
        if ready:
            return ready
    return []
