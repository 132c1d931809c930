"""How containers are ended: the preStop hook, SIGTERM, and SIGKILL once the grace is over."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.localcluster.nodeagent import records
from apps.localcluster.nodeagent.actions import Actions, Failed, Place, Undone
from apps.localcluster.nodeagent.events import Recorder
from apps.localcluster.nodeagent.records import Attempt

Object = dict[str, Any]
LEAST = 2.0  # seconds that a container gets after its hook, however long that took


@dataclass
class Stopping:
    """One run that is being ended; `deadline` is on the monotonic clock, `hook` runs before SIGTERM."""

    attempt: Attempt
    deadline: float
    limit: asyncio.Timeout | None = None
    hook: asyncio.Task[None] | None = None

    def shorten(self, deadline: float) -> None:
        if deadline >= self.deadline:
            return
        self.deadline = deadline
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + max(0.0, deadline - time.monotonic()))


@dataclass
class Stopper:
    """Ends the containers of one pod."""

    actions: Actions
    events: Recorder
    _stopping: dict[Path, Stopping] = field(default_factory=dict)

    def stop(self, pod: Object | None, attempt: Attempt, grace: float, message: str = "") -> None:
        """Begin to end a run, or go on with it; asking again can only shorten the time."""
        now = time.monotonic()
        known = self._stopping.get(attempt.folder)
        if known is None:
            name = attempt.folder.parent.name
            if pod:
                self.events.normal(pod, "Killing", message or f"Stopping container {name}", name)
            known = self._stopping[attempt.folder] = Stopping(attempt, now + grace)
            hook = _hook(pod, name)
            if pod and hook and grace > 0 and attempt.running:
                known.hook = asyncio.create_task(self._run(pod, hook, known))
        else:
            known.shorten(now + grace)
        if known.hook is None:
            records.ask_to_stop(attempt, max(0.0, known.deadline - now))

    def is_stopping(self, attempt: Attempt) -> bool:
        return attempt.folder in self._stopping

    def forget(self) -> None:
        """The pod is gone."""
        for stopping in self._stopping.values():
            if stopping.hook:
                stopping.hook.cancel()

    async def _run(self, pod: Object, hook: tuple[Object, Object], stopping: Stopping) -> None:
        container, action = hook
        place = Place(stopping.attempt.folder, container, (pod.get("status") or {}).get("podIP") or "")
        try:
            async with asyncio.timeout(max(0.0, stopping.deadline - time.monotonic())) as stopping.limit:
                await self.actions.do(action, place, "lifecycle")
        except (Failed, Undone):
            self.events.warning(pod, "FailedPreStopHook", "PreStopHook failed", container["name"])
        except TimeoutError:
            pass
        finally:
            stopping.hook = stopping.limit = None  # a limit that is over can no longer be moved
        records.ask_to_stop(stopping.attempt, max(LEAST, stopping.deadline - time.monotonic()))


def _hook(pod: Object | None, name: str) -> tuple[Object, Object] | None:
    """A container and its preStop hook."""
    spec = pod["spec"] if pod else {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        action = (container.get("lifecycle") or {}).get("preStop")
        if container["name"] == name and action:
            return container, action
    return None
