"""The points of a job's attempts as one history, judged in pieces as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apps.jobs.domain.losswatch.machine import Memory, look
from apps.jobs.domain.losswatch.settings import Rules

LAG = 20
"""Logged steps behind the newest up to which figures may still come in, from a slower rank or in a line of their
own."""


class Point(NamedTuple):
    attempt: int
    step: int
    series: str
    value: float


@dataclass(frozen=True)
class Snapshot:
    """What is remembered up to and with a step that is old enough for nothing more to come before it."""

    attempt: int = 0
    step: int = -1
    memory: Memory = field(default_factory=Memory)


def needs_all(snapshot: Snapshot, points: Iterable[Point]) -> bool:
    """Whether a newer attempt has made steps again that the snapshot holds: it must be judged from the beginning."""
    return any(point.attempt > snapshot.attempt and point.step <= snapshot.step for point in points)


def follow(rules: Rules, snapshot: Snapshot, points: Iterable[Point]) -> tuple[Memory, Snapshot]:
    """What is remembered after all of these points, and a snapshot to go on from next time.

    Points of the snapshot's attempt up to its step are held to be in it. Of a step that was made again the newest
    attempt counts.
    """
    steps = [(attempt, step, values) for attempt, step, values in _history(points) if step > snapshot.step]
    settled = steps[:-LAG] if len(steps) > 2 * LAG else []
    if settled:
        memory = look(rules, snapshot.memory, [(step, values) for _attempt, step, values in settled])
        attempt, step, _values = settled[-1]
        snapshot, steps = Snapshot(max(attempt, snapshot.attempt), step, memory), steps[len(settled) :]
    return look(rules, snapshot.memory, [(step, values) for _attempt, step, values in steps]), snapshot


def _history(points: Iterable[Point]) -> list[tuple[int, int, Mapping[str, float]]]:
    """The steps in ascending order with their figures; from its first step on an attempt replaces those before it."""
    attempts: dict[int, dict[int, dict[str, float]]] = {}
    for point in points:
        attempts.setdefault(point.attempt, {}).setdefault(point.step, {})[point.series] = point.value
    kept: list[tuple[int, int, Mapping[str, float]]] = []
    for attempt in sorted(attempts):
        steps = attempts[attempt]
        first = min(steps)
        kept = [one for one in kept if one[1] < first]
        kept += [(attempt, step, steps[step]) for step in sorted(steps)]
    return kept
