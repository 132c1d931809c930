"""Watching one cluster: reflectors that wake rows, a probe that says whether it answers, followers of its logs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from django.db import Error as DatabaseError

from apps.adapters.errors import OutsideError
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.endpoint import Endpoint
from apps.adapters.kubernetes.stream import Expired, Listed, StreamReader
from apps.clusters.services import note_answer, note_silence
from apps.clusters.services.registry import PodEnd, PodReason, WorkloadKind, WorkloadObject, workloads
from apps.clusters.services.samples import SAMPLE_SECONDS, note_sample
from apps.clusters.services.seen import keep_nodes, note_comparison
from apps.clusters.watch import projections
from apps.clusters.watch.database import Writer, in_thread
from apps.clusters.watch.devices import DeviceWatch
from apps.clusters.watch.follow import Follower, Run, Target
from apps.clusters.watch.nodes import Inventory
from apps.clusters.watch.projections import ClusterEvent, Node, Pod, PodGroup
from apps.clusters.watch.queues import Around
from apps.clusters.watch.reflect import Reflector
from apps.clusters.watch.sayings import Sayings
from apps.clusters.watch.telling import Telling
from apps.clusters.watch.wakes import Wakes
from apps.streams import services as streams

log = structlog.get_logger(__name__)

PROBE_SECONDS, PROBE_AGAIN_SECONDS = 10.0, 2.0
SILENT_AFTER = 2
NODES_SECONDS, NODES_IDLE_SECONDS = 1.0, 30.0
EVENT_SECONDS = 2.0
"""An event wakes its row at most this often: a scheduler repeats itself."""
SWEEP_SECONDS = 30.0
COMPARE_SECONDS = 600.0


@dataclass
class _Following:
    follower: Follower
    task: asyncio.Task[None]
    run: Run


@dataclass
class ClusterWatch:
    """Everything that runs for one cluster. `run()` never returns; cancel it to stop."""

    cluster_id: int
    endpoint: Endpoint
    wakes: Wakes
    buffer: streams.LiveBuffer
    write: Writer = field(default_factory=Writer)
    _followers: dict[tuple[str, str], _Following] = field(default_factory=dict)
    _owners: dict[str, tuple[WorkloadKind, str]] = field(default_factory=dict)
    """Row by uid of its workload object, for the PodGroups that Volcano makes of them."""
    _event_woke: dict[tuple[str, str], float] = field(default_factory=dict)
    diverged: int = 0
    """Objects that a comparison found other than the watches had told; must stay 0."""
    _orphans: set[str] = field(default_factory=set)
    """Uids of objects without a row that were already reported."""
    _is_away: bool = False

    async def run(self) -> None:
        try:
            self._reader = StreamReader(self.endpoint)
        except ssl.SSLError as error:
            await self._note(note_silence, f"The cluster's certificate authority cannot be read: {error}")
            await asyncio.Event().wait()
        self._doubt, self._nodes_changed = asyncio.Event(), asyncio.Event()
        self._telling = Telling(self.write)
        self._sayings = Sayings(self.write, lambda key: self._pods.store.get(key), _row_of, self._named)
        devices = DeviceWatch(self.cluster_id, self._ours, self.write)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._start_reflectors()
                telling = (self._telling.run, self._sayings.run, devices.run)
                for step in (self._probe, self._keep_nodes, self._sweep, self._compare, *telling):
                    group.create_task(step())
        finally:
            await self._reader.close()

    def _start_reflectors(self) -> None:
        everywhere, broken = objects.everywhere, self._doubt.set
        self._workloads = {
            kind.label: Reflector(
                self._reader, everywhere(objects.KINDS[kind.objects]), projections.OBJECTS,
                lambda old, new, kind=kind: self._workload_changed(kind, old, new),  # type: ignore[misc]
                broken, label_selector=kind.label,
            )
            for kind in workloads()
        }  # fmt: skip
        self._pods: Reflector[Pod] = Reflector(
            self._reader, everywhere(objects.POD), projections.PODS, self._pod_changed, broken
        )
        self._nodes: Reflector[Node] = Reflector(
            self._reader, everywhere(objects.NODE), projections.NODES, self._node_changed, broken
        )
        groups: Reflector[PodGroup] = Reflector(
            self._reader, everywhere(objects.POD_GROUP), projections.POD_GROUPS, self._group_changed, broken
        )
        events: Reflector[ClusterEvent] = Reflector(
            self._reader, everywhere(objects.EVENT), projections.EVENTS, self._event_came, broken,
            keep=False, found=self._sayings.add,
        )  # fmt: skip
        self._around = Around(self._reader, broken, self._nodes_changed.set)
        reflectors: list[Reflector[Any]] = [*self._workloads.values(), self._pods, self._nodes, groups, events]
        reflectors += self._around.reflectors
        for reflector in reflectors:
            self._group.create_task(reflector.run())
        self._kept = [reflector for reflector in reflectors if reflector.keep]

    def _ours(self) -> list[tuple[Pod, WorkloadKind, str]]:
        return [(pod, *found) for pod in self._pods.store.values() if (found := _row_of(pod))]

    # --- what changed -----------------------------------------------------------------------------------------------

    def _workload_changed(self, kind: WorkloadKind, old: Listed | None, new: Listed | None) -> None:
        for item in (old, new):
            if item is not None and (row_id := item.metadata.label(kind.label)):
                self._owners[item.metadata.uid] = (kind, row_id)
                self.wakes.add(kind.task, row_id)
        if old is not None and new is None:
            self._owners.pop(old.metadata.uid, None)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        item = new or old
        for owner in (item.metadata.ownerReferences or []) if item else []:
            if owner.uid in self._owners:
                kind, row_id = self._owners[owner.uid]
                self.wakes.add(kind.task, row_id)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._nodes_changed.set()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._nodes_changed.set()
        item = new or old
        found = _row_of(item) if item else None
        if item is None or found is None:
            return
        kind, row_id = found
        if new is not None and new.end is not None and (old is None or old.end is None):
            self._group.create_task(self._tell_end(new, kind, row_id))
        else:
            if new is not None and new.end is None:
                self._telling.add(kind, row_id, new)
            self.wakes.add(kind.task, row_id)
        if new is not None:
            self._follow(new, kind, row_id)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._sayings.gone(old)
            for (pod_uid, _), following in self._followers.items():
                if pod_uid == old.metadata.uid:
                    following.follower.gone()

    async def _tell_end(self, pod: Pod, kind: WorkloadKind, row_id: str) -> None:
        """Pass on how a pod ended, then wake its row: a scheduler that starts the gang anew deletes the pod at once."""
        end = pod.end
        if kind.ended and end is not None and end.exitCode is not None:
            at = end.finishedAt or datetime.now(UTC)
            told = PodEnd(
                row_id, pod.metadata.uid, pod.metadata.name, pod.attempt, pod.rank, pod.spec.nodeName or "",
                end.exitCode, at, end.startedAt,
                PodReason(pod.status.reason or "", pod.status.disruption, end.reason or ""),
            )  # fmt: skip
            try:
                await self.write(kind.ended, told)
            except DatabaseError as error:
                log.warning("pod_end_unwritten", pod=pod.metadata.name, error=str(error)[:200])
        self.wakes.add(kind.task, row_id)

    def _event_came(self, old: ClusterEvent | None, new: ClusterEvent | None) -> None:
        if new is None:
            return
        self._around.event(new)
        self._sayings.add(new)
        about = new.involvedObject
        found = self._named(about.kind, (about.namespace, about.name))
        now = time.monotonic()
        if found is None or now - self._event_woke.get((found[0].task, found[1]), 0.0) < EVENT_SECONDS:
            return
        self._event_woke[found[0].task, found[1]] = now
        self.wakes.add(found[0].task, found[1])

    def _named(self, kind_name: str, key: tuple[str, str]) -> tuple[WorkloadKind, str] | None:
        """The row that an event speaks of: of a pod, of our workload object, or of the PodGroup named after it."""
        if kind_name == "Pod":
            pod = self._pods.store.get(key)
            return _row_of(pod) if pod else None
        for kind in workloads():
            store = self._workloads[kind.label].store
            for name in (key[1], key[1][:-37]):  # a PodGroup is called after its job and the job's uid
                item = store.get((key[0], name))
                if item is not None:
                    return kind, item.metadata.label(kind.label)
        return None

    def _follow(self, pod: Pod, kind: WorkloadKind, row_id: str) -> None:
        """Follow each container that has begun, or tell its follower how it stands."""
        for status in pod.status.containerStatuses or []:
            if not (status.is_running or status.has_ended or status.restartCount):
                continue
            run = Run(status.restartCount, status.has_ended)
            key = pod.metadata.uid, status.name
            known = self._followers.get(key)
            if known is not None and not known.task.done():
                known.follower.update(run)
                known.run = run
            elif known is None or known.run != run:
                target = Target(
                    path=objects.path(objects.POD, pod.metadata.namespace, pod.metadata.name),
                    container=status.name,
                    pod_uid=pod.metadata.uid,
                    topic=kind.topic(row_id),
                    kind=kind,
                    source=streams.Source(pod.rank, pod.attempt, pod.metadata.name),
                    told=partial(self._tell_figures, kind, row_id),
                )
                follower = Follower(target, self._reader, self.buffer, run, self.write)
                self._followers[key] = _Following(follower, self._group.create_task(follower.run()), run)

    def _tell_figures(self, kind: WorkloadKind, row_id: str) -> None:
        if kind.figures_task:
            self.wakes.add(kind.figures_task, row_id)

    # --- loops ------------------------------------------------------------------------------------------------------

    async def _probe(self) -> None:
        """Ask the server for its version, at once when something broke; two failures in a row are a silence."""
        failures, was_away = 0, True
        while True:
            self._doubt.clear()
            try:
                version = await self._reader.version()
            except OutsideError as error:
                failures, was_away, self._is_away = failures + 1, True, True
                if failures >= SILENT_AFTER:
                    await self._note(note_silence, error.text)
            else:
                failures, self._is_away = 0, False
                noted = await self._note(note_answer, version)
                if was_away:
                    was_away = not (noted and await self._wake_waiting())
            if failures or was_away:
                await asyncio.sleep(0.2 if 0 < failures < SILENT_AFTER else PROBE_AGAIN_SECONDS)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._doubt.wait()

    async def _wake_waiting(self) -> bool:
        """Wake what waited for the cluster, once it is written that it answers; False where that could not be found
        out."""
        for kind in workloads():
            if kind.waiting is None:
                continue
            try:
                for row_id in await self.write(kind.waiting, self.cluster_id):
                    self.wakes.add(kind.task, row_id, asked=True)
            except DatabaseError as error:
                log.warning("waiting_unread", cluster=self.cluster_id, error=str(error)[:200])
                return False
        return True

    async def _note(self, write: Callable[..., None], *told: str | int) -> bool:
        """False where it could not be written."""
        try:
            await self.write(write, self.cluster_id, *told)
        except DatabaseError as error:
            log.warning("cluster_state_unwritten", cluster=self.cluster_id, error=str(error)[:200])
            return False
        return True

    async def _keep_nodes(self) -> None:
        """Write the snapshot of nodes, at most once a second; a changed catalogue is heard of within half a minute."""
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        inventory, sampled = Inventory(self.cluster_id, self._around), -SAMPLE_SECONDS
        while True:
            self._nodes_changed.clear()
            try:
                pods = list(self._pods.store.values())
                found = await in_thread(inventory.unlike, list(self._nodes.store.values()), pods)
                await self.write(self._around.note, self.cluster_id)
                for part in found.parts():
                    await self.write(keep_nodes, self.cluster_id, part)
                if time.monotonic() - sampled >= SAMPLE_SECONDS and not self._is_away:
                    await self.write(note_sample, self.cluster_id, inventory.capacity)
                    sampled = time.monotonic()
            except DatabaseError as error:
                log.warning("nodes_unwritten", cluster=self.cluster_id, error=str(error)[:200])
                self._nodes_changed.set()
            await asyncio.sleep(NODES_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(NODES_IDLE_SECONDS):
                    await self._nodes_changed.wait()

    async def _sweep(self) -> None:
        """Wake the rows of our objects that are not settled; what has no row is an orphan. Catches a lost wake-up."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._forget_ended()
            for kind in workloads():
                try:
                    await self._sweep_kind(kind)
                except DatabaseError as error:
                    log.info("sweep_failed", cluster=self.cluster_id, error=str(error)[:200])

    async def _sweep_kind(self, kind: WorkloadKind) -> None:
        ours = [
            WorkloadObject(
                self.cluster_id, i.metadata.namespace, i.metadata.name, i.metadata.uid, i.metadata.label(kind.label)
            )
            for i in self._workloads[kind.label].store.values()
        ]
        ids = {item.row_id for item in ours}
        known = await in_thread(kind.known, ids) if kind.known else ids
        for row_id in await in_thread(kind.unsettled, known) if kind.unsettled else known:
            self.wakes.add(kind.task, row_id)
        for item in ours:
            if item.row_id not in known and item.uid not in self._orphans:
                self._orphans.add(item.uid)
                log.warning("orphan", cluster=self.cluster_id, namespace=item.namespace, name=item.name)
                if kind.orphan:
                    await self.write(kind.orphan, item)

    async def _compare(self) -> None:
        """List everything again now and then. What the watches did not tell is set right, and said: it is a fault."""
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            objects = differed = 0
            for reflector in self._kept:
                try:
                    missed = await reflector.compare()
                except (Expired, OutsideError) as error:
                    log.info("compare_failed", cluster=self.cluster_id, path=reflector.path, error=str(error)[:200])
                    continue
                self.diverged += missed
                differed += missed
                objects += len(reflector.store)
                say = log.warning if missed else log.info
                say("compared", cluster=self.cluster_id, path=reflector.path, missed=missed, diverged=self.diverged)
            if not self._is_away:
                await self._note(note_comparison, objects, differed)

    def _forget_ended(self) -> None:
        """Drop the followers of pods that are gone."""
        there = {pod.metadata.uid for pod in self._pods.store.values()}
        ended = [key for key, f in self._followers.items() if f.task.done() and key[0] not in there]
        for key in ended:
            del self._followers[key]
        now = time.monotonic()
        self._event_woke = {key: at for key, at in self._event_woke.items() if now - at < EVENT_SECONDS}


def _row_of(pod: Pod) -> tuple[WorkloadKind, str] | None:
    found: Iterable[tuple[WorkloadKind, str]] = ((kind, pod.metadata.label(kind.label)) for kind in workloads())
    return next(((kind, row_id) for kind, row_id in found if row_id), None)
