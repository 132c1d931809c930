"""What a training log tells in passing: figures by step, and what went wrong.

Precision goes before recall: a line is held against the forms in `formats` from its first character to its last, so a
sentence in which the word loss stands is no point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from apps.jobs.domain.traininglog.causes import causes, faults
from apps.jobs.domain.traininglog.formats import FORMATS, Format, Progress
from apps.jobs.domain.traininglog.glance import glance
from apps.jobs.domain.traininglog.line import Line, Told
from apps.jobs.domain.traininglog.marks import saved
from apps.jobs.domain.traininglog.network import Way, heard

__all__ = ["CHECKPOINT", "MARKS", "Line", "LogReader", "Told", "causes"]

CHECKPOINT = "checkpoint"
"""The mark of a step whose checkpoint was saved."""
MARKS = (CHECKPOINT, "skipped_steps", "nan_iterations", *Way)
"""Every mark there is: kept like series of figures, and no curves."""
STEP_LIMIT = 2**63 - 1


class LogReader:
    """Reads one container's lines in their order: some forms say a step only together with a line before. `more` gives
    the forms that count besides ours at this moment."""

    def __init__(self, more: Callable[[], Sequence[Format]] = tuple) -> None:
        self._progress = Progress()
        self._more = more
        self._ways: set[Way] = set()

    def read(self, line: Line) -> Told:
        told = self._figures(line)
        happened = (*causes(line.text), *told.events, *faults(told.values))
        is_step = told.step is not None and 0 <= told.step <= STEP_LIMIT
        if (step := saved(line)) is not None:
            return Told(step, {}, happened, {CHECKPOINT: 1.0})
        if (way := heard(line.text)) is not None and way not in self._ways:  # NCCL says it for each channel
            self._ways.add(way)
            return Told(None, {}, happened, {way.value: 1.0})
        return Told(told.step, told.values, happened, told.marks) if is_step else Told(events=happened)

    def glance(self, texts: bytes) -> Sequence[int] | None:
        """Places in all of many lines, each with its newline, that tell figures or marks; None for all."""
        return glance(texts, self._more())

    def _figures(self, line: Line) -> Told:
        for form in chain(FORMATS, self._more()):
            told = form(line, self._progress)
            if told is not None:
                return told
        return Told()
