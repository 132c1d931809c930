"""What a core delivers of a log, to 1, 10 and 50 open pages, and how late at 10,000 lines a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.bench import log_arms as arms
from tests.bench.figure import Figure

LINES, RAW_LINES, LAYER_LINES = 200_000, 1_000_000, 500
RATE, SECONDS = 10_000, 15


def throughput(viewers: int) -> Iterator[Figure]:
    """µs of CPU for each delivered line; smaller is better, as with every figure."""
    with arms.prepared() as (topic, session):
        carried, raw = arms.carry(topic, session, viewers, LINES), arms.raw(RAW_LINES)
        name, mine = f"logs-{viewers}", 1e6 / carried.per_core
        yield Figure(f"{name}-cpu", mine, "µs of CPU a line", 1e6 / raw.per_core, 5.0)
        yield Figure(f"{name}-delivered", 1 - carried.lines / (LINES * viewers), "of the lines passed over", None, 1.0)
        if viewers == 10:
            layer = asyncio.run(arms.each_line(viewers, LAYER_LINES))
            yield Figure(f"{name}-layer", mine, "µs of CPU a line", 1e6 / layer.per_core, 1 / 300)
        if viewers == 50:
            yield Figure(f"{name}-core", mine, "µs of CPU a line", None, 0.5)


def latency(viewers: int) -> Iterator[Figure]:
    """From the source's writing of a frame's newest line to a page's reading of the frame."""
    with arms.prepared() as (topic, session):
        carried = arms.carry(topic, session, viewers, RATE * SECONDS, RATE)
    late = sorted(carried.late)
    for part, at, goal in (("p50", len(late) // 2, 1), ("p99", len(late) * 99 // 100, 5)):
        yield Figure(f"logs-latency-{part}", late[at], "ms", None, goal)
    yield Figure("logs-latency-cpu", carried.cpu / SECONDS, "of a core", None, 1)
