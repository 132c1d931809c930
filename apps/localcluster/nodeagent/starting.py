"""The postStart hook: a container counts as running only after it, and is ended if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.localcluster.nodeagent.actions import Actions, Failed, Place, Undone
from apps.localcluster.nodeagent.records import Attempt

Object = dict[str, Any]
DONE, FAILED = "done", "failed"
MARK = "post-start"  # a file in the attempt's folder: how the hook went; an agent that finds none runs it (again)


@dataclass
class PostStarts:
    """The hooks of one pod; `changed` is called when one has ended."""

    actions: Actions
    changed: Callable[[], None]
    _running: dict[Path, asyncio.Task[None]] = field(default_factory=dict)

    def outcome(self, container: Object, attempt: Attempt, ip: str) -> str:
        """DONE, FAILED, or empty as long as it runs; begins it if nobody has."""
        action = (container.get("lifecycle") or {}).get("postStart")
        if not action:
            return DONE
        mark = attempt.folder / MARK
        if mark.exists():
            return mark.read_text()
        if attempt.folder not in self._running:
            place = Place(attempt.folder, container, ip)
            self._running[attempt.folder] = asyncio.create_task(self._run(action, place))
        return ""

    def forget(self) -> None:
        """The pod is being ended, or gone."""
        for task in self._running.values():
            task.cancel()
        self._running.clear()

    async def _run(self, action: Object, place: Place) -> None:
        try:
            await self.actions.do(action, place, "lifecycle")
            outcome = DONE
        except (Failed, Undone):
            outcome = FAILED
        if place.folder.exists():
            (place.folder / MARK).write_text(outcome)
        self._running.pop(place.folder, None)
        self.changed()
