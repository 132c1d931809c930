"""Steps with needs: each starts as soon as what it needs is done, so that the slow ones wait for nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """`run` does it and may give a word on the outcome. A need that is no step of the plan counts as met."""

    name: str
    label: str
    run: Callable[[], str | None]
    needs: tuple[str, ...] = ()


def carry_out(steps: Iterable[Step], report: Callable[[Step, str, float], None]) -> None:
    """Runs all of them; `report(step, outcome, seconds)` is called by this thread as each is done.

    Raises what the first failing step raised, at once: those under way are left to end by themselves.
    """
    waiting = {step.name: step for step in steps}
    unfinished = set(waiting)
    under_way: dict[Future[tuple[str, float]], Step] = {}
    pool = ThreadPoolExecutor(max_workers=len(waiting) or 1)
    try:
        while unfinished:
            for step in [each for each in waiting.values() if unfinished.isdisjoint(each.needs)]:
                under_way[pool.submit(_timed, waiting.pop(step.name))] = step
            if not under_way:
                raise ValueError(f"these steps need each other: {sorted(waiting)}")
            # In short turns, as a signal is handled only between them.
            for future in wait(under_way, timeout=0.2, return_when=FIRST_COMPLETED).done:
                step = under_way.pop(future)
                outcome, seconds = future.result()
                unfinished.discard(step.name)
                report(step, outcome, seconds)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _timed(step: Step) -> tuple[str, float]:
    started = time.monotonic()
    return step.run() or "ready", time.monotonic() - started
