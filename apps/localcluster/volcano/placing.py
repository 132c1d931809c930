"""The scheduler's loop: sessions follow what happens, at most about five a second."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from apps.localcluster.client import ApiError, Key, KubeClient, key_of
from apps.localcluster.volcano.cache import Cache
from apps.localcluster.volcano.events import Recorder
from apps.localcluster.volcano.objects import CORE, SCHEDULER, SCHEDULING, name, namespace, now, path, uid
from apps.localcluster.volcano.scheduler import session
from apps.localcluster.volcano.scheduler.model import Snapshot
from apps.localcluster.volcano.scheduler.report import Report
from apps.localcluster.volcano.scheduler.settings import Settings

log = logging.getLogger(__name__)

Object = dict[str, Any]

PAUSE, LONGEST_PAUSE = 0.2, 1.0
"""Seconds between a change and the session it causes: the controllers react to it first, and a gang's pods, which come
one by one, are not looked at half-made. While changes go on there is a session a second."""
IDLE = 30.0
AT_ONCE = 16


@dataclass(frozen=True)
class Views:
    """What the scheduler sees."""

    nodes: Cache
    pods: Cache
    groups: Cache
    queues: Cache
    claims: Cache
    services: Cache
    priorities: Cache
    hypernodes: Cache
    making: set[Key]
    """PodGroups whose pods are still being made: half a gang is nothing to report on."""


@dataclass
class Scheduler:
    """`group_status` is where the status of a PodGroup is written: "status", or "" if its kind has no subresource."""

    client: KubeClient
    views: Views
    recorder: Recorder
    settings: Settings
    group_status: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    # One thread, as each keeps the memory of the largest session it has seen.
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "session"))

    def wake(self, _old: Object | None = None, _new: Object | None = None) -> None:
        self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), IDLE)
            except TimeoutError:
                pass
            await self._quiet()
            half_made = frozenset(self.views.making)
            try:
                work = functools.partial(session.run, self._snapshot(), self.settings)
                decisions = await asyncio.get_running_loop().run_in_executor(self._thread, work)
            except (KeyError, TypeError, ValueError):
                log.exception("no session: an object is not understood")
                continue
            decisions.reports = [report for report in decisions.reports if key_of(report.group) not in half_made]
            await self._carry_out(decisions)

    async def _quiet(self) -> None:
        await asyncio.sleep(PAUSE)
        end = asyncio.get_running_loop().time() + LONGEST_PAUSE - PAUSE
        while self._changed.is_set() and asyncio.get_running_loop().time() < end:
            self._changed.clear()
            await asyncio.sleep(PAUSE / 2)
        self._changed.clear()

    def _snapshot(self) -> Snapshot:
        views = self.views
        classes = views.priorities.store.values()
        values = {name(item): int(item.get("value", 0)) for item in classes}
        values[""] = next((int(item.get("value", 0)) for item in classes if item.get("globalDefault")), 0)
        return Snapshot(
            list(views.nodes.store.values()),
            list(views.pods.store.values()),
            [group for group in views.groups.store.values() if not group["metadata"].get("deletionTimestamp")],
            list(views.queues.store.values()),
            dict(views.claims.store),
            list(views.services.store.values()),
            values,
            list(views.hypernodes.store.values()),
        )

    async def _carry_out(self, decisions: session.Decisions) -> None:
        steps: list[Coroutine[Any, Any, None]] = [self._bind(pod, node) for pod, node in decisions.bindings]
        steps += [self._evict(eviction) for eviction in decisions.evictions]
        await self._all(steps)
        steps = [self._tell(report) for report in decisions.reports]
        steps += [self._account(queue, amounts) for queue, amounts in decisions.allocated.items()]
        await self._all(steps)

    async def _all(self, steps: list[Coroutine[Any, Any, None]]) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def step(work: Coroutine[Any, Any, None]) -> None:
            async with gate:
                try:
                    await work
                except (ApiError, httpx.TransportError) as error:
                    # The object changed or the server is away: the next session sees it as it then is.
                    log.info("scheduler: %s", error)
                    asyncio.get_running_loop().call_later(1, self.wake)

        await asyncio.gather(*(step(work) for work in steps))

    async def _bind(self, pod: Object, node: str) -> None:
        where = path(CORE, "pods", namespace(pod), name(pod), "binding")
        metadata = {"name": name(pod), "namespace": namespace(pod), "uid": uid(pod)}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self.client.create(where, body)
        known = self.views.pods.store.get(key_of(pod))
        if known is pod:
            # Taken as bound until the watch says so, so that the next session does not place it again.
            self.views.pods.store[key_of(pod)] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        words = f"Successfully assigned {namespace(pod)}/{name(pod)} to {node}"
        self.recorder.tell(pod, SCHEDULER, "Normal", "Scheduled", words)
        self.wake()

    async def _evict(self, eviction: session.Eviction) -> None:
        pod, words = eviction.pod, f"Pod is evicted, because of {eviction.reason}"
        self.recorder.tell(pod, SCHEDULER, "Warning", "Evict", words)
        self.recorder.tell(eviction.group, SCHEDULER, "Normal", "Evict", eviction.reason)
        where, stamp = path(CORE, "pods", namespace(pod), name(pod)), now()
        target = "volcano: preempting to accommodate a higher priority pod"
        new: list[Object] = [
            {"type": "Ready", "status": "False", "reason": "Evict", "message": words},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": target},
        ]
        known = (pod.get("status") or {}).get("conditions") or []
        conditions = [c for c in known if c.get("type") not in ("Ready", "DisruptionTarget")]
        conditions += [{**condition, "lastTransitionTime": stamp} for condition in new]
        change = {"metadata": {"uid": uid(pod)}, "status": {"conditions": conditions}}
        await self.client.merge_patch(f"{where}/status", change)
        await self.client.delete(where, uid=uid(pod))
        seen = self.views.pods.store.get(key_of(pod))
        if seen is not None and uid(seen) == uid(pod):
            # Taken as going until the watch says so, so that the next session takes no second one.
            going = {**seen, "metadata": {**seen["metadata"], "deletionTimestamp": stamp}}
            self.views.pods.store[key_of(pod)] = going

    async def _tell(self, report: Report) -> None:
        await self._write_group(report)
        for kind, reason, message in report.events:
            self.recorder.tell_once(report.group, SCHEDULER, kind, reason, message)
        for pod, message in report.pods:
            await self._write_waiting(pod, message)

    async def _write_group(self, report: Report) -> None:
        old = report.group.get("status") or {}
        stamp, before = now(), {c["type"]: c for c in old.get("conditions") or []}
        for condition in report.status.get("conditions") or []:
            known = before.get(condition["type"])
            same = known is not None and all(known.get(k) == condition.get(k) for k in ("status", "reason", "message"))
            condition.setdefault("lastTransitionTime", known["lastTransitionTime"] if known and same else stamp)
            condition.setdefault("transitionID", known.get("transitionID", "") if known and same else uid(report.group))
        if report.status == {key: value for key, value in old.items() if value}:
            return
        counters = {key: report.status.get(key) for key in ("running", "failed", "succeeded")}
        change = {"metadata": {"uid": uid(report.group)}, "status": {**report.status, **counters}}
        where = path(SCHEDULING, "podgroups", namespace(report.group), name(report.group), self.group_status)
        answer = await self.client.merge_patch(where, change)
        self.views.groups.remember(answer)

    async def _write_waiting(self, pod: Object, message: str) -> None:
        conditions = list((pod.get("status") or {}).get("conditions") or [])
        known: Object = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
        if known.get("status") == "False" and known.get("message") == message:
            return
        new = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        new["lastTransitionTime"] = known.get("lastTransitionTime") or now()
        others = [c for c in conditions if c.get("type") != "PodScheduled"]
        change = {"metadata": {"uid": uid(pod)}, "status": {"conditions": [*others, new]}}
        answer = await self.client.merge_patch(path(CORE, "pods", namespace(pod), name(pod), "status"), change)
        self.views.pods.remember(answer)
        self.recorder.tell(pod, SCHEDULER, "Warning", "FailedScheduling", message)

    async def _account(self, queue: str, allocated: dict[str, str]) -> None:
        known = (self.views.queues.store.get(("", queue)) or {}).get("status") or {}
        if not known.get("state") or known.get("allocated") == allocated:
            return
        gone = {key: None for key in known.get("allocated") or {} if key not in allocated}
        change = {"status": {"allocated": {**gone, **allocated}, "reservation": known.get("reservation") or {}}}
        self.views.queues.remember(
            await self.client.merge_patch(path(SCHEDULING, "queues", "", queue, "status"), change)
        )
