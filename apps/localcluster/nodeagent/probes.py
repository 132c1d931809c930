"""Startup, readiness and liveness probes of one pod, by the kubelet's rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.nodeagent import restarts
from apps.localcluster.nodeagent.actions import Actions, Failed, Place, Undone
from apps.localcluster.nodeagent.records import Attempt

Object = dict[str, Any]
STARTUP, READINESS, LIVENESS = "Startup", "Readiness", "Liveness"
KINDS = {STARTUP: "startupProbe", READINESS: "readinessProbe", LIVENESS: "livenessProbe"}
TRIES = 3  # of a probe that could not be carried out

Tell = Callable[[str, str], None]
"""Says (container, message) on the pod as a warning, Unhealthy."""


@dataclass
class Tally:
    """Equal results in a row, and whether they are enough to count."""

    successes: int
    failures: int
    last: bool | None = None
    run: int = 0

    @classmethod
    def of(cls, probe: Object) -> Tally:
        return cls(probe.get("successThreshold") or 1, probe.get("failureThreshold") or 3)

    def count(self, good: bool) -> bool:
        """Take one more result; True once so many of its kind have come in a row that it holds."""
        self.run = self.run + 1 if good == self.last else 1
        self.last = good
        return self.run >= (self.successes if good else self.failures)


@dataclass
class Health:
    """What the probes say of one run of a container. `failed` is the kind of probe that condemns it."""

    place: Place
    begun: float
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ready: bool = True
    failed: str = ""
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)


class Prober:
    """Probes the containers of a pod that run; `changed` is called with every result that counts."""

    def __init__(self, actions: Actions, tell: Tell, changed: Callable[[], None]) -> None:
        self.actions, self.tell, self.changed = actions, tell, changed
        self._health: dict[str, Health] = {}

    def attend(self, running: Mapping[str, tuple[Attempt, Object, Object]], ip: str) -> None:
        """Probe these and no others. By name: the run, its container, and what the API last said of it.

        A run that the API knows already is taken as it was: the agent, not the container, began anew.
        """
        for name in [name for name, health in self._health.items() if _other(health, running.get(name))]:
            self._forget(name)
        for name, (attempt, container, known) in running.items():
            if name not in self._health:
                self._begin(name, attempt, container, known, ip)

    def _begin(self, name: str, attempt: Attempt, container: Object, known: Object, ip: str) -> None:
        begun = restarts.epoch(attempt.started["started"]) if attempt.started else time.time()
        health = self._health[name] = Health(Place(attempt.folder, container, ip), begun)
        before = (
            known if known.get("restartCount") == attempt.number and "running" in (known.get("state") or {}) else {}
        )
        health.ready = not container.get("readinessProbe") or bool(before.get("ready"))
        if not container.get("startupProbe") or before.get("started"):
            health.started.set()
        for kind, field_name in KINDS.items():
            if container.get(field_name) and not (kind == STARTUP and health.started.is_set()):
                health.tasks[kind] = asyncio.create_task(self._probe(name, kind, container[field_name], health))

    def hush(self) -> None:
        """The pod is being ended: nothing condemns its containers any more."""
        for health in self._health.values():
            for kind in (STARTUP, LIVENESS):
                if kind in health.tasks:
                    health.tasks[kind].cancel()
            health.failed = ""

    def stop(self) -> None:
        for name in list(self._health):
            self._forget(name)

    def _forget(self, name: str) -> None:
        for task in self._health.pop(name).tasks.values():
            task.cancel()

    def started(self, name: str) -> bool:
        return name in self._health and self._health[name].started.is_set()

    def ready(self, name: str) -> bool:
        return self.started(name) and self._health[name].ready

    def condemned(self) -> dict[str, str]:
        """Containers that have to be ended, and the kind of probe that says so."""
        return {name: health.failed for name, health in self._health.items() if health.failed}

    async def _probe(self, name: str, kind: str, probe: Object, health: Health) -> None:
        tally, period = Tally.of(probe), probe.get("periodSeconds") or 10
        delay = health.begun + (probe.get("initialDelaySeconds") or 0) - time.time()
        await asyncio.sleep(max(0.0, delay))
        if kind != STARTUP:
            await health.started.wait()
        while True:
            good = await self._once(name, kind, probe, health.place)
            if good is not None and tally.count(good) and self._counts(kind, good, health):
                return
            await asyncio.sleep(period)

    async def _once(self, name: str, kind: str, probe: Object, place: Place) -> bool | None:
        """The result of one probe, None for one that could not be carried out."""
        error = ""
        for _ in range(TRIES):
            try:
                await self.actions.do(probe, place, "probe", probe.get("timeoutSeconds") or 1)
            except Failed as failure:
                self.tell(name, f"{kind} probe failed: {failure}")
                return False
            except Undone as undone:
                error = str(undone)
            else:
                return True
        self.tell(name, f"{kind} probe errored and resulted in unknown state: {error}")
        return None

    def _counts(self, kind: str, good: bool, health: Health) -> bool:
        """Take a result that holds; True if this probe has nothing left to do."""
        if kind == READINESS:
            changed, health.ready = health.ready != good, good
            if changed:
                self.changed()
            return False
        if good and kind == LIVENESS:
            return False
        if good:
            health.started.set()
        else:
            health.failed = kind.lower()
        self.changed()
        return True


def _other(health: Health, now: tuple[Attempt, Object, Object] | None) -> bool:
    return now is None or now[0].folder != health.place.folder
