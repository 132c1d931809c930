"""Readers of log lines that operators write as patterns, for what no form of ours reads.

A pattern is RE2's: it takes time in proportion to the line, whatever the pattern, so that none can hold up the process
in which the logs of every job are followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import re2

from apps.jobs.domain.traininglog.formats import FORMATS, MAX_SEARCHED, Format, Progress
from apps.jobs.domain.traininglog.line import Line, Told
from apps.jobs.domain.traininglog.values import SERIES, number, whole

LONGEST = 1000
"""Characters of a pattern."""
MEMORY = 1 << 20
"""Bytes that a pattern may take; RE2 refuses what needs more."""
MOST = 50
"""Readers at once: each is tried on every line that nothing else reads."""
STEP = "step"


class BadPattern(ValueError):
    """`why` is too-long, syntax, whole-line, no-step or no-value; `detail` RE2's own words."""

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(why, detail)
        self.why = why
        self.detail = detail


@dataclass(frozen=True)
class Pattern:
    """A pattern as a form. `among` finds a line that it fits among many; None for one that would not."""

    compiled: re2._Regexp[str]
    series: Mapping[str, str]
    among: re2._Regexp[str] | None

    def __call__(self, line: Line, _progress: Progress) -> Told | None:
        match = self.compiled.fullmatch(line.text[:MAX_SEARCHED])
        if match is None:
            return None
        values = {self.series[name]: number(match[name] or "") for name in self.series}
        return Told(whole(match[STEP] or ""), {name: value for name, value in values.items() if value is not None})

    def may_be_among(self, texts: bytes) -> bool:
        """Whether lines that it fits may be among some, each with its newline."""
        return self.among is None or self.among.search(texts) is not None


def read_pattern(pattern: str) -> Pattern:
    """A pattern as a form: it must fit a line from its first character to its last, and name `step` and at least one
    figure. Raises BadPattern."""
    if len(pattern) > LONGEST:
        raise BadPattern("too-long")
    options = re2.Options()
    options.max_mem, options.log_errors = MEMORY, False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise BadPattern("syntax", said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
    series = {name: series_named(name) for name in compiled.groupindex if name != STEP}
    if STEP not in compiled.groupindex:
        raise BadPattern("no-step")
    if not series:
        raise BadPattern("no-value")
    if compiled.fullmatch(""):
        raise BadPattern("whole-line")
    return Pattern(compiled, series, _among(pattern, options))


_OF_A_WHOLE_TEXT = re.compile(r"\\[AzZ]|\(\?[A-Za-z]*-")
"""What makes a pattern mean something else among many lines than alone."""


def _among(pattern: str, options: re2.Options) -> re2._Regexp[str] | None:
    if _OF_A_WHOLE_TEXT.search(pattern):
        return None
    try:
        return re2.compile(f"(?m:^(?:{pattern})$)", options)
    except re2.error:
        return None


def series_named(group: str) -> str:
    """The series that a group of this name is: one of ours by any of its names, else one of its own."""
    return SERIES.get(group.lower().replace("_", " "), group.lower())[:40]


@dataclass(frozen=True)
class Tried:
    """What became of a line: `reader` is the name of what took it, "" for nothing; `doubtful` a line that nothing took
    although it names a figure."""

    text: str
    reader: str
    told: Told
    doubtful: bool


_FIGURE = re.compile(r"\b(?:loss|lr|learning.rate|grad.norm)\b", re.IGNORECASE)


def try_lines(lines: Iterable[Line], forms: Mapping[str, Format]) -> Sequence[Tried]:
    """Hold lines against our own forms and then these, as a followed log is."""
    progress = Progress()
    named = [(form.__name__, form) for form in FORMATS] + list(forms.items())
    found = []
    for line in lines:
        told = ((name, form(line, progress)) for name, form in named)
        name, taken = next(((name, one) for name, one in told if one is not None), ("", Told()))
        if taken.step is not None and taken.values:
            found.append(Tried(line.text, name, taken, doubtful=False))
        else:
            found.append(Tried(line.text, "", Told(), bool(_FIGURE.search(line.text[:MAX_SEARCHED]))))
    return found
