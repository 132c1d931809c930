"""What the whole demo takes: seconds until it answers on a set-up tree, and memory without ranks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.demo import Demo
from tests.bench.figure import Figure


def figures() -> Iterator[Figure]:
    with Demo() as first:
        directory = first.directory
        yield Figure("stack-first-start", first.seconds, "s", None, 20)
        total = first.memory()["total"]
    yield Figure("stack-memory", total / 1e9, "GB PSS", None, 1.1)
    assert not directory.exists()
