"""What the whole demo takes: seconds until it answers, at its first start and again, and memory without ranks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from deploy.local.memory import by_program
from deploy.local.testing import demo
from tests.bench.figure import Figure


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stack-first-start", "stack-start"):
            start = time.monotonic()
            with demo(Path(folder) / "demo") as running:
                running.await_portal()
                yield Figure(name, time.monotonic() - start, "s", None, 20)
                total = sum(by_program(running.home).values())
        yield Figure("stack-memory", total / 1e9, "GB PSS", None, 1.1)
