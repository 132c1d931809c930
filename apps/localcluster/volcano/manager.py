"""Puts the parts together: caches, webhooks, controllers and scheduler around one client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx

from apps.localcluster.client import ApiError, KubeClient, Kubeconfig
from apps.localcluster.volcano import jobs, placing, shapes
from apps.localcluster.volcano.cache import Cache, all_synced
from apps.localcluster.volcano.events import Recorder
from apps.localcluster.volcano.hypernodes import HyperNodeController
from apps.localcluster.volcano.jobs import JobController
from apps.localcluster.volcano.objects import BUS, CORE, JOBS, SCHEDULING, TOPOLOGY, path
from apps.localcluster.volcano.placing import Scheduler
from apps.localcluster.volcano.queues import GroupController, QueueController
from apps.localcluster.volcano.scheduler.settings import Settings
from apps.localcluster.volcano.webhooks import Webhooks

log = logging.getLogger(__name__)

Object = dict[str, Any]
Listener = Callable[[Object | None, Object | None], None]

_KINDS = {  # name: (group, plural, whether a server may lack it)
    "jobs": (JOBS, "jobs", False),
    "commands": (BUS, "commands", False),
    "groups": (SCHEDULING, "podgroups", False),
    "queues": (SCHEDULING, "queues", False),
    "pods": (CORE, "pods", False),
    "nodes": (CORE, "nodes", False),
    "services": (CORE, "services", False),
    "claims": (CORE, "persistentvolumeclaims", True),
    "priorities": ("/apis/scheduling.k8s.io/v1", "priorityclasses", True),
    "hypernodes": (TOPOLOGY, "hypernodes", True),
}
_SHAPES = {"pods": shapes.pod, "nodes": shapes.node}
_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"


class Manager:
    """The whole stand-in. `run()` ends only when it is cancelled."""

    def __init__(self, kubeconfig: Kubeconfig, settings: Settings, port: int = 0) -> None:
        self.client = KubeClient(kubeconfig, "volcano")
        self.recorder = Recorder(self.client)
        self._listeners: dict[str, list[Listener]] = {kind: [] for kind in _KINDS}
        self.caches = {kind: self._cache(kind, *where) for kind, where in _KINDS.items()}
        see = self.caches
        self.webhooks = Webhooks(self.client, see["queues"], port)
        self.jobs = JobController(
            self.client,
            jobs.Views(see["jobs"], see["pods"], see["groups"], see["queues"], see["commands"], see["priorities"]),
            self.recorder,
        )
        self.queues = QueueController(self.client, see["queues"], see["groups"], see["commands"], self.recorder)
        self.groups = GroupController(self.client, see["pods"], see["groups"])
        self.scheduler = Scheduler(
            self.client,
            placing.Views(
                see["nodes"],
                see["pods"],
                see["groups"],
                see["queues"],
                see["claims"],
                see["services"],
                see["priorities"],
                see["hypernodes"],
                self.jobs.making,
            ),
            self.recorder,
            settings,
        )
        self.jobs.made = self.scheduler.wake
        self.hypernodes = HyperNodeController(self.client, see["hypernodes"], see["nodes"])
        self._listen()

    def _cache(self, kind: str, group: str, plural: str, optional: bool) -> Cache:
        listeners = self._listeners[kind]

        def changed(old: Object | None, new: Object | None) -> None:
            for listener in listeners:
                listener(old, new)

        cache = Cache(self.client, path(group, plural), changed, optional=optional)
        cache.shape = _SHAPES.get(kind, cache.shape)
        return cache

    def _listen(self) -> None:
        hear = self._listeners
        hear["jobs"].append(self.jobs.job_changed)
        hear["commands"] += [self.jobs.command_changed, self.queues.command_changed]
        hear["pods"] += [self.jobs.pod_changed, self.groups.pod_changed]
        hear["groups"] += [self.jobs.child_changed, self.queues.group_changed]
        hear["queues"].append(self.queues.queue_changed)
        hear["hypernodes"].append(self.hypernodes.hypernode_changed)
        hear["nodes"].append(self.hypernodes.node_changed)
        for kind in ("pods", "groups", "queues", "nodes", "claims", "priorities", "hypernodes"):
            hear[kind].append(self.scheduler.wake)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for cache in self.caches.values():
                    group.create_task(cache.run())
                group.create_task(self.recorder.run())
                await all_synced(self.caches.values())
                group.create_task(self.webhooks.serve())
                await self._persist(self.webhooks.register)
                await self._persist(self._learn)
                await self._persist(self.queues.found)
                for controller in (self.queues, self.groups, self.hypernodes, self.jobs):
                    group.create_task(controller.queue.run())
                group.create_task(self.scheduler.run())
                log.info("volcano is at work; webhooks on port %d", self.webhooks.port)
        finally:
            await self.client.close()

    async def _persist(self, step: Callable[[], Any]) -> None:
        """Repeat a step of the start until the server takes it."""
        while True:
            try:
                await step()
            except (ApiError, httpx.TransportError) as error:
                log.warning("start: %s", error)
                await asyncio.sleep(1)
            else:
                return

    async def _learn(self) -> None:
        """Some releases give PodGroups a status subresource, others write it with the rest."""
        try:
            definition = await self.client.get(_CRD)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            return
        version = next(v for v in definition["spec"]["versions"] if v["name"] == "v1beta1")
        self.scheduler.group_status = "status" if "status" in (version.get("subresources") or {}) else ""
