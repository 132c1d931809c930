"""Passing on what the cluster says of pods and of the work they belong to: what came within a second together."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from django.db import Error as DatabaseError

from apps.clusters.domain.nodes import TEXT_LIMIT
from apps.clusters.services.registry import PodEventSeen, WorkloadKind
from apps.clusters.watch.database import Writer
from apps.clusters.watch.projections import ClusterEvent, Pod

log = structlog.get_logger(__name__)

GATHER_SECONDS = 1.0
UNKNOWN_SECONDS = 20.0
"""An event may come before the pod it speaks of; later than that it speaks of nothing that is ours."""
MOST_WAITING, MOST_GONE = 10_000, 2_000
PART = 500
_KINDS = frozenset({"Pod", "Job", "PodGroup"})
_ORDINARY = frozenset({"Scheduled", "Pulling", "Pulled", "Created", "Started", "SuccessfulCreate", "SuccessfulDelete"})
"""What every pod is said to do."""

Owner = tuple[WorkloadKind, str]


class Sayings:
    """Only the newest of each event is told. `pod_at` gives the pod of a name, `owner_of` whose a pod is, `owner_at`
    whose the work of a kind and a name is."""

    def __init__(
        self,
        write: Writer,
        pod_at: Callable[[tuple[str, str]], Pod | None],
        owner_of: Callable[[Pod], Owner | None],
        owner_at: Callable[[str, tuple[str, str]], Owner | None],
    ) -> None:
        self._write, self._pod_at, self._owner_of, self._owner_at = write, pod_at, owner_of, owner_at
        self._waiting: OrderedDict[str, tuple[ClusterEvent, float]] = OrderedDict()
        self._gone: OrderedDict[str, Pod] = OrderedDict()

    def add(self, event: ClusterEvent) -> None:
        """Tell of this event soon, if it is about something of ours."""
        if event.involvedObject.kind not in _KINDS or (event.type != "Warning" and event.reason in _ORDINARY):
            return
        self._keep(event, time.monotonic())

    def gone(self, pod: Pod) -> None:
        """A pod was deleted: what is said of it may still come."""
        self._gone[pod.metadata.uid] = pod
        if len(self._gone) > MOST_GONE:
            self._gone.popitem(last=False)

    def _keep(self, event: ClusterEvent, since: float) -> None:
        key = event.metadata.uid or f"{event.metadata.namespace}/{event.metadata.name}"
        self._waiting[key] = event, since
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            batch, self._waiting = self._waiting, OrderedDict()
            told: dict[WorkloadKind, list[PodEventSeen]] = defaultdict(list)
            for key, (event, since) in batch.items():
                found = self._told(key, event)
                if found is not None:
                    told[found[0]].append(found[1])
                elif self._may_come(event) and time.monotonic() - since < UNKNOWN_SECONDS:
                    self._keep(event, since)
            for kind, events in told.items():
                await self._tell(kind, events)

    async def _tell(self, kind: WorkloadKind, events: list[PodEventSeen]) -> None:
        if kind.said is None:
            return
        for first in range(0, len(events), PART):
            try:
                await self._write(kind.said, events[first : first + PART])
            except DatabaseError as error:  # they come again with the next list
                log.warning("events_untold", task=kind.task, events=len(events), error=str(error)[:200])

    def _pod(self, event: ClusterEvent) -> Pod | None:
        """The very pod that an event speaks of: one that was made anew has the same name."""
        about = event.involvedObject
        pod = self._pod_at((about.namespace, about.name))
        return pod if pod and about.uid in ("", pod.metadata.uid) else self._gone.get(about.uid)

    def _may_come(self, event: ClusterEvent) -> bool:
        return event.involvedObject.kind != "Pod" or self._pod(event) is None

    def _told(self, key: str, event: ClusterEvent) -> tuple[WorkloadKind, PodEventSeen] | None:
        about = event.involvedObject
        pod = self._pod(event) if about.kind == "Pod" else None
        if about.kind == "Pod":
            owner = self._owner_of(pod) if pod else None
        else:
            owner = self._owner_at(about.kind, (about.namespace, about.name))
        if owner is None:
            return None
        at = event.last or datetime.now(UTC)
        seen = PodEventSeen(
            row_id=owner[1],
            uid=key[:100],
            reason=event.reason[:80],
            message=event.message[:TEXT_LIMIT],
            is_warning=event.type == "Warning",
            count=event.times,
            first=min(event.first or at, at),
            at=at,
            pod_name=pod.metadata.name if pod else "",
            attempt=pod.attempt if pod else None,
            rank=pod.rank if pod else None,
            node=(pod.spec.nodeName or "") if pod else "",
        )
        return owner[0], seen
