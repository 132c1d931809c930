"""Lines of one container on their way into frames: what they say, and the figures in them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from apps.clusters.domain.blocks import NEWLINE, Block, Numbers
from apps.clusters.domain.heads import Columns, Heads
from apps.clusters.domain.lineformat import Line, read
from apps.clusters.domain.loglines import Joiner, LogLine, decoded
from apps.clusters.services.registry import WorkloadKind
from apps.streams import services as streams

FRAME_SECONDS = 0.001, 0.05
"""From one frame to the next it is four times as long as the last one took to write, within these bounds: a line that
comes sooner waits for others to share a frame with. Where there is little to do lines leave at once; where there is
much, larger frames cost less."""
FRAME_BYTES = 128 << 10
"""Of a log as it comes; a frame of it is about half as long."""


@dataclass
class Batch:
    """What goes into the next frame, and beside it."""

    rows: streams.Rows
    points: list[streams.LivePoint] = field(default_factory=list)
    readings: list[tuple[str, int, float, datetime]] = field(default_factory=list)
    gap: streams.Gap | None = None
    size: int = 0
    since: float | None = None
    """When its first line came."""

    def frames(self) -> list[streams.Packed]:
        return [self.rows.packed(self.gap)] if self.rows.count or self.gap else []


class Gatherer:
    """Reads the lines of one run of a container, in their order, one by one or many at once: both give the same."""

    def __init__(self, source: streams.Source, kind: WorkloadKind) -> None:
        self._source, self._kind = source, kind
        self._gather, self._left = FRAME_SECONDS[0], 0.0
        self.new_run()
        self.begin_anew()

    def new_run(self) -> None:
        """From now on the lines are of another run of the container."""
        self._figures = self._kind.reader() if self._kind.reader else None
        self._heads = Heads()

    def begin_anew(self) -> None:
        """Forget what has gathered."""
        self.batch, self._joiner = Batch(streams.Rows(self._source)), Joiner()

    @property
    def is_full(self) -> bool:
        return self.batch.size >= FRAME_BYTES

    @property
    def pause(self) -> float:
        """Seconds until the next frame may leave."""
        return max(0.0, self._left + self._gather - time.monotonic())

    @property
    def wait(self) -> float | None:
        """Seconds until what has gathered must be on its way; None while nothing has."""
        since = self.batch.since
        if since is None:
            return None
        if self._joiner.is_idle:
            return self.pause
        return max(self.pause, since + self._gather - time.monotonic())  # the rest of a long line may be close behind

    @property
    def takes_many(self) -> bool:
        """Whether no piece of a long line is held back, and many may be added at once."""
        return self._joiner.is_idle

    def take(self) -> Batch:
        """What has gathered, to be written now."""
        for line in self._joiner.flush():
            self.batch.rows.add(self._read(line))
        batch, self.batch = self.batch, Batch(streams.Rows(self._source))
        return batch

    def took(self, begun: float) -> None:
        """A frame was written that was handed over at this time (`time.monotonic`)."""
        least, most = FRAME_SECONDS
        self._gather, self._left = min(most, max(least, 4 * (time.monotonic() - begun))), begun

    def gap(self, start: int, end: int) -> None:
        self.batch.gap = streams.Gap(start, end)

    def add(self, line: LogLine) -> None:
        self._grow(len(line.text), 1)
        for whole in self._joiner.feed(line):
            self.batch.rows.add(self._read(whole))

    def add_many(self, block: Block) -> None:
        """Only while it `takes_many`."""
        self._grow(len(block.data), len(block))
        odd = block.odd()
        columns = self._heads.read(block, odd)
        texts = columns.texts
        for line in np.flatnonzero(odd).tolist():
            texts[line] = b""
        telling = odd.copy()
        telling[self._telling(texts)] = True
        at, others = block.at.tolist(), dict[int, streams.LogLine]()
        for line in np.flatnonzero(telling).tolist():
            if odd[line]:
                others[line] = self._read(LogLine(at[line], block.text(line)))
            else:
                parsed = _line(columns, line)
                step = self._take_figures(parsed, at[line])
                if step != parsed.step:
                    others[line] = self._row(parsed, at[line], step)
        self.batch.rows.add_columns(at, columns.kinds, columns.steps, texts, others)

    def _grow(self, size: int, lines: int) -> None:
        self.batch.since = self.batch.since or time.monotonic()
        self.batch.size += size + 64 * lines

    def _telling(self, texts: list[bytes]) -> Numbers:
        """The lines that may tell figures."""
        whole = b"\n".join(texts) + b"\n"
        places = self._figures.glance(whole) if self._figures else ()
        if places is None:
            return np.arange(len(texts))
        ends = np.flatnonzero(np.frombuffer(whole, np.uint8) == NEWLINE) if places else np.empty(0)
        return np.searchsorted(ends, np.array(places, np.int64))

    def _read(self, line: LogLine) -> streams.LogLine:
        """What one line says; its figures are put with those that have gathered."""
        parsed = read(decoded(line))
        look = streams.Look(parsed.styles, line.over) if parsed.styles or line.over else None
        return self._row(parsed, line.at, self._take_figures(parsed, line.at), look)

    def _row(self, parsed: Line, at: int, step: int | None, look: streams.Look | None = None) -> streams.LogLine:
        rank = self._source.rank if parsed.rank is None else parsed.rank
        return streams.LogLine(at, parsed.level, rank, step, parsed.text, look)

    def _take_figures(self, parsed: Line, at: int) -> int | None:
        """Put a line's figures with those that have gathered; its step."""
        told = self._figures.read(parsed) if self._figures else None
        step = told.step if told and parsed.step is None else parsed.step
        if told and (told.values or told.marks):
            moment = datetime.fromtimestamp(at / 1e9, UTC)
            readings, points = self.batch.readings, self.batch.points
            readings += [(mark, told.step or 0, value, moment) for mark, value in told.marks.items()]
            if step is not None:
                readings += [(series, step, value, moment) for series, value in told.values.items()]
                points += [
                    streams.LivePoint(series, step, streams.jsonable(value), at // 1_000_000)
                    for series, value in told.values.items()
                ]
        return step


def _line(columns: Columns, index: int) -> Line:
    """A line that was read with others, as `read` reads it alone."""
    (level, rank), step = columns.kinds[index], columns.steps[index]
    return Line(columns.texts[index].decode(), level, rank, int(step) if step else None)
