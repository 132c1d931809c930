"""Reading a log that was kept, as the watch reads one that is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from apps.clusters.domain.lineformat import Line, read
from apps.clusters.domain.loglines import TEXT_LIMIT, LogLine, Splitter, decoded, fitted


def read_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a log without timestamps, given as chunks of any size; a last one may lack its newline."""
    splitter = Splitter()
    for chunk in chunks:
        yield from map(_line, splitter.feed(chunk))
    yield from map(_line, splitter.rest())


def _line(found: tuple[bytes, int]) -> Line:
    raw, cut = found
    text, over = fitted(raw, TEXT_LIMIT)
    return read(decoded(LogLine(0, text, cut + over)))
