"""Lines of a topic's whole log, by number: what is looked for among them, and where in a frame it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import re2

from apps.streams.domain.frames import LogFrame, LogLine

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
PATTERN_LIMIT = 1000
_PATTERN_MEMORY = 8 << 20
_WHOLE_ONLY = ("\\A", "\\z", "\\Z")
"""A pattern with these speaks of a whole text: many lines at once cannot be searched for it."""


class BadPattern(ValueError):
    """What is searched for is no regular expression."""


@dataclass(frozen=True)
class Block:
    """A frame, and the number of its first line: lines of a log are counted from 1."""

    first: int
    frame: LogFrame

    @property
    def last(self) -> int:
        return self.first + len(self.frame.lines) - 1


@dataclass(frozen=True)
class Filter:
    """Which lines are wanted: those of some ranks (and of none), of a level or worse, of an attempt, with a text or
    pattern in them, whatever its case, of a span of time (ns, `until` not in it). Empty: all."""

    ranks: frozenset[int] = frozenset()
    level: str = ""
    attempt: int | None = None
    text: str = ""
    regex: bool = False
    since: int | None = None
    until: int | None = None

    def __bool__(self) -> bool:
        given = (self.attempt, self.since, self.until)
        return bool(self.ranks or self.level or self.text) or any(one is not None for one in given)


class Matcher:
    """A filter made ready for many frames. Raises BadPattern."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted
        self._pattern = _compiled(wanted.text, regex=wanted.regex) if wanted.text else None
        self._by_line = wanted.regex and any(sign in wanted.text for sign in _WHOLE_ONLY)

    def indices(self, frame: LogFrame) -> Sequence[int]:
        """The places in a frame of the lines that are wanted."""
        wanted, lines, pattern = self._wanted, frame.lines, self._pattern
        if wanted.attempt is not None and frame.src.attempt != wanted.attempt:
            return ()
        # All lines at once are searched many times faster than one by one; most frames have nothing.
        if pattern and not self._by_line and not pattern.search("\n".join([line.text for line in lines])):
            return ()
        return [
            index
            for index, line in enumerate(lines)
            if self._is_wanted(line, frame) and (pattern is None or pattern.search(line.text))
        ]

    def _is_wanted(self, line: LogLine, frame: LogFrame) -> bool:
        wanted = self._wanted
        if wanted.since is not None and line.at < wanted.since:
            return False
        if wanted.until is not None and line.at >= wanted.until:
            return False
        if wanted.ranks:
            rank = frame.src.rank if line.rank is None else line.rank
            if rank is not None and rank not in wanted.ranks:
                return False
        return not wanted.level or weight(line.level or "INFO") >= weight(wanted.level)


def weight(level: str) -> int:
    """How bad a level is; -1 for what is none."""
    return LEVELS.index(level) if level in LEVELS else -1


def _compiled(text: str, *, regex: bool) -> re2._Regexp[str]:
    options = re2.Options()
    options.log_errors, options.case_sensitive, options.max_mem = False, False, _PATTERN_MEMORY
    try:
        if regex:
            re2.compile(text, options)  # by itself first: what is wrong is told of what was typed
        return re2.compile(f"(?m:{text})" if regex else re2.escape(text), options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise BadPattern(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
