"""One look at the figures of one step, and what is remembered between steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Any, Self

from apps.jobs.domain.losswatch.settings import Rules

BASELINE = 100
"""Good losses that mean and deviation are made of; with fewer there is no such rule."""
RECENT = 10
"""Good losses whose mean a leap is measured by."""
LEAST_SIGMA = 0.05
"""A deviation is taken for at least this part of the mean: losses that hardly vary would otherwise alarm for ever."""
FLAT = 100
"""Equal losses in a row, to the last printed digit, that mean that nothing is learnt."""
PACES, PACE_SHARE, SLOW_RUN = 20, 0.25, 3
"""So many in a row below that share of what is predicted are a collapse. Where jobs alike predict nothing, the median
of a run's first speeds does; these are never judged: a run is slow while it begins."""
SCALE_FALLS = 5
"""A loss scale that falls so often in a row, once it had settled, or a run that skips every other step so often."""


class State(StrEnum):
    OK = "ok"
    SUSPECT = "suspect"
    TRIPPED = "tripped"


ALERTS = ("flat", "slow", "behind", "overflow")
"""What is told and marked but is no divergence: the weights are good."""


@dataclass(frozen=True)
class Finding:
    """What was found: by which rule, at which step, since which (the first abnormal one), the last good step before
    that (None: none was), the value, and what it was held against (None: nothing)."""

    rule: str
    step: int
    since: int
    good: int | None
    value: float
    against: float | None = None

    def dump(self) -> dict[str, Any]:
        """As JSON, in which what is no number is a word."""
        value = self.value if math.isfinite(self.value) else str(self.value)
        return {**asdict(self), "value": value}

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "value": float(stored["value"])})


@dataclass(frozen=True)
class Memory:
    """What the steps so far leave behind. `good` are the last good losses, `odd` how many abnormal steps came in a row
    up to now, `doubt` the newest of them."""

    good: tuple[float, ...] = ()
    last_good: int | None = None
    was_below: bool = False
    odd: int = 0
    doubt: Finding | None = None
    last_loss: float | None = None
    equal: int = 0
    equal_since: int = 0
    paces: tuple[float, ...] = ()
    slow: tuple[int, ...] = ()
    scale: float | None = None
    scale_falls: tuple[int, ...] = ()
    scale_seen: int = 0
    skipped: tuple[int, float] | None = None
    skips: tuple[int, ...] = ()
    alerts: tuple[Finding, ...] = ()
    verdict: Finding | None = None

    @property
    def state(self) -> State:
        if self.verdict:
            return State.TRIPPED
        return State.SUSPECT if self.odd or self.alerts else State.OK

    def dump(self) -> dict[str, Any]:
        """As JSON."""
        told = {"doubt": self.doubt and self.doubt.dump(), "verdict": self.verdict and self.verdict.dump()}
        return {**asdict(self), **told, "alerts": [alert.dump() for alert in self.alerts]}

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        """From `dump`, also where tuples have become lists."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()
        }
        for key in ("doubt", "verdict"):
            values[key] = Finding.load(stored[key]) if stored[key] else None
        values["alerts"] = tuple(map(Finding.load, stored["alerts"]))
        return cls(**values)


@dataclass
class _Step:
    """One step under judgement."""

    rules: Rules
    memory: Memory
    step: int
    values: Mapping[str, float]
    trips: bool = False

    def judged(self) -> Memory:
        memory = self.memory
        if memory.verdict:
            return memory
        loss, norm = self.values.get("loss"), self.values.get("grad_norm")
        found = self._at_once(loss, norm) or self._abnormal(loss, norm)
        if found is not None:
            memory = replace(memory, odd=memory.odd + 1, doubt=found, verdict=found if self.trips else None)
        elif loss is not None:
            memory = self._learnt(memory, loss)
        memory = self._paced(self._scaled(self._flat(memory, loss)))
        return replace(memory, alerts=self._alerts(memory))

    # --- divergence -------------------------------------------------------------------------------------------------

    def _at_once(self, loss: float | None, norm: float | None) -> Finding | None:
        """What one step is enough for; what is no number first."""
        if loss is not None and not math.isfinite(loss):
            return self._finding("nan" if math.isnan(loss) else "infinite", loss, trips=True)
        if loss == 0 and norm is not None and not math.isfinite(norm):
            return self._finding("zero-nan", norm, trips=True)
        limit = self.rules.limit
        if loss is not None and limit is not None and self.memory.was_below and loss > limit:
            return self._finding("limit", loss, limit, trips=True)
        return None

    def _abnormal(self, loss: float | None, norm: float | None) -> Finding | None:
        """What must come some times in a row."""
        if norm is not None and not math.isfinite(norm):
            return self._finding("gradient", norm)
        if skipped := self.values.get("nan_iterations"):
            return self._finding("nan-iterations", skipped)
        if loss is None:
            return None
        good, rules = self.memory.good, self.rules
        if rules.factor is not None and good:
            near = _mean(good[-RECENT:])
            if near > 0 and loss > rules.factor * near:
                return self._finding("leap", loss, near)
        if rules.sigmas is not None and len(good) >= BASELINE:
            mean = _mean(good)
            deviation = math.sqrt(_mean([(one - mean) * (one - mean) for one in good]))
            above = mean + rules.sigmas * max(deviation, LEAST_SIGMA * abs(mean))
            if loss > above:
                return self._finding("sigma", loss, above)
        return None

    def _finding(self, rule: str, value: float, against: float | None = None, *, trips: bool = False) -> Finding:
        doubt = self.memory.doubt
        found = Finding(rule, self.step, doubt.since if doubt else self.step, self.memory.last_good, value, against)
        self.trips = trips or self.memory.odd + 1 >= self.rules.run
        return found

    def _learnt(self, memory: Memory, loss: float) -> Memory:
        limit = self.rules.limit
        below = memory.was_below or (limit is not None and loss <= limit)
        good = (*memory.good, loss)[-BASELINE:]
        return replace(memory, good=good, last_good=self.step, was_below=below, odd=0, doubt=None)

    # --- alerts -----------------------------------------------------------------------------------------------------

    def _flat(self, memory: Memory, loss: float | None) -> Memory:
        if loss is None or not math.isfinite(loss):
            return memory
        if loss != memory.last_loss:
            return replace(memory, last_loss=loss, equal=1, equal_since=self.step)
        return replace(memory, equal=memory.equal + 1)

    def _paced(self, memory: Memory) -> Memory:
        pace = self.values.get("tokens_per_second")
        if pace is None or not math.isfinite(pace):
            return memory
        if len(memory.paces) < PACES:
            return replace(memory, paces=(*memory.paces, pace))
        slow = pace < PACE_SHARE * self._predicted(memory)
        return replace(memory, slow=(*memory.slow, self.step)[:SLOW_RUN] if slow else ())

    def _predicted(self, memory: Memory) -> float:
        return median(memory.paces) if self.rules.pace is None else self.rules.pace

    def _scaled(self, memory: Memory) -> Memory:
        scale, skipped = self.values.get("loss_scale"), self.values.get("skipped_steps")
        if scale is not None and math.isfinite(scale):
            falls = memory.scale is not None and scale < memory.scale and memory.scale_seen >= BASELINE
            rises = memory.scale is not None and scale > memory.scale
            kept = () if rises else (*memory.scale_falls, self.step)[:SCALE_FALLS] if falls else memory.scale_falls
            memory = replace(memory, scale=scale, scale_falls=kept, scale_seen=memory.scale_seen + 1)
        if skipped is not None and math.isfinite(skipped):
            then = memory.skipped
            stormy = then is not None and 2 * (skipped - then[1]) >= self.step - then[0] > 0
            skips = (*memory.skips, self.step)[:SCALE_FALLS] if stormy else ()
            memory = replace(memory, skipped=(self.step, skipped), skips=skips)
        return memory

    def _alerts(self, memory: Memory) -> tuple[Finding, ...]:
        """Those that hold now, each as it was when it began."""
        holds: list[Finding] = []
        if memory.equal >= FLAT and memory.last_loss is not None:
            holds.append(Finding("flat", self.step, memory.equal_since, None, memory.last_loss))
        if len(memory.slow) >= SLOW_RUN:
            pace = self.values.get("tokens_per_second", 0.0)
            rule = "slow" if self.rules.pace is None else "behind"
            holds.append(Finding(rule, self.step, memory.slow[0], None, pace, self._predicted(memory)))
        for since, value in ((memory.scale_falls, memory.scale), (memory.skips, memory.skipped and memory.skipped[1])):
            if len(since) >= SCALE_FALLS and not any(one.rule == "overflow" for one in holds):
                holds.append(Finding("overflow", self.step, since[0], None, value or 0.0))
        before = {one.rule: one for one in memory.alerts}
        return tuple(before.get(one.rule, one) for one in holds)


def _mean(values: Sequence[float]) -> float:
    """Infinite, not an error, where the sum is too large; `statistics` would also take far longer."""
    return sum(values) / len(values)


def look(rules: Rules, memory: Memory, steps: Sequence[tuple[int, Mapping[str, float]]]) -> Memory:
    """What is remembered after some more steps, given in ascending order with their figures by series. A verdict
    stays."""
    for step, values in steps:
        memory = _Step(rules, memory, step, values).judged()
    return memory
