"""A log to 1 open page: what a core delivers, beside a reader that only counts."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figure import Figure
from tests.bench.log_figures import throughput


def figures() -> Iterator[Figure]:
    yield from throughput(1)
