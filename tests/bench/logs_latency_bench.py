"""A log of 10,000 lines a second to 50 open pages: how late it is there."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figure import Figure
from tests.bench.log_figures import latency


def figures() -> Iterator[Figure]:
    yield from latency(50)
