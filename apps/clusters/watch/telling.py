"""Passing on how pods stand, faster than a look can: of all that changed within a moment in one transaction."""

from __future__ import annotations

import asyncio
import time

import structlog
from django.db import Error as DatabaseError

from apps.clusters.services.registry import PodSeen, WorkloadKind
from apps.clusters.watch.database import Writer
from apps.clusters.watch.projections import Pod

log = structlog.get_logger(__name__)

GATHER_SECONDS = 0.01
AGAIN_SECONDS = 0.02
"""Until those are told once more that somebody else was writing."""


class Telling:
    """Only the newest of each pod is told."""

    def __init__(self, write: Writer) -> None:
        self._write = write
        self._waiting: dict[WorkloadKind, dict[str, PodSeen]] = {}
        self._any = asyncio.Event()

    def add(self, kind: WorkloadKind, row_id: str, pod: Pod) -> None:
        """Tell of this pod soon."""
        if kind.seen is None:
            return
        main, status = pod.main, pod.status
        waiting, running = main.waiting, main.running
        self._waiting.setdefault(kind, {})[pod.metadata.uid] = PodSeen(
            row_id=row_id,
            pod_uid=pod.metadata.uid,
            phase=status.phase or "Pending",
            node=pod.spec.nodeName or "",
            waiting=(waiting.reason if waiting else None) or "",
            message=(waiting.message if waiting else None) or status.message or "",
            started_at=running.startedAt if running else None,
        )
        self._any.set()

    async def run(self) -> None:
        """The first at once, and what comes in the moment after a statement together in the next."""
        written = 0.0
        while True:
            await self._any.wait()
            await asyncio.sleep(max(0.0, written + GATHER_SECONDS - time.monotonic()))
            self._any.clear()
            batch, self._waiting = self._waiting, {}
            for kind, pods in batch.items():
                assert kind.seen
                try:
                    taken = await self._write(kind.seen, list(pods.values()))
                except DatabaseError as error:  # the look that each was woken for will find it
                    log.warning("pods_untold", task=kind.task, pods=len(pods), error=str(error)[:200])
                    continue
                if taken:
                    again = {uid: pods[uid] for uid in taken}
                    asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again, kind, again)
            written = time.monotonic()

    def _again(self, kind: WorkloadKind, pods: dict[str, PodSeen]) -> None:
        """What was told of them meanwhile is newer."""
        self._waiting[kind] = pods | self._waiting.get(kind, {})
        self._any.set()
