"""The agent: reflectors for pods and services, one worker a pod, heartbeats, the log server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from apps.localcluster.client import KubeClient, Kubeconfig, Reflector
from apps.localcluster.nodeagent import fleet, images, machine, records, storage
from apps.localcluster.nodeagent.events import Recorder
from apps.localcluster.nodeagent.heartbeat import Heartbeat
from apps.localcluster.nodeagent.host import Host, Settings
from apps.localcluster.nodeagent.logserver import LogServer
from apps.localcluster.nodeagent.worker import PodWorker

Object = dict[str, Any]
log = logging.getLogger(__name__)
SETTLE = 0.05  # seconds in which changes are gathered before hosts files are written


class Quiet(uvicorn.Server):
    """Leaves signals to the agent."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class Start:
    """What the command line says. `certificate` is (certificate, key) for TLS, `client_ca` what the certificates of
    those it answers are checked against; `port` 0 takes a free one."""

    kubeconfig: Path
    fleet: Path
    images: Path
    settings: Settings
    port: int = 0
    certificate: tuple[Path, Path] | None = None
    allow_mounts: bool = True
    client_ca: Path | None = None


class Agent:
    """Ties the parts together; everything runs on one event loop."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.nodes = fleet.load(start.fleet)
        self.client = KubeClient(Kubeconfig.load(start.kubeconfig), "nodeagent")
        self.pods = Reflector(self.client, "/api/v1/pods", self._pod_changed)
        self.services = Reflector(self.client, "/api/v1/services", self._service_changed)
        self.host = Host(
            settings=start.settings,
            client=self.client,
            machine=machine.examine(start.allow_mounts),
            images=images.load(start.images, machine.ROOT),
            nodes=self.nodes,
            events=Recorder(self.client),
            pods=self.pods.store,
            services=self.services.store,
            wake=self._wake,
        )
        self._workers: dict[str, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._dirty: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled. Containers go on without the agent."""
        self.host.load()
        listener = socket.create_server((fleet.HOST_IP, self.start.port))
        port = int(listener.getsockname()[1])
        how = (
            "with private mounts" if self.host.machine.mounts else f"without private mounts: {self.host.machine.reason}"
        )
        log.info("%d nodes, %d pods known, %s, logs on port %d", len(self.nodes), len(self.host.records), how, port)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._log_server().serve([listener]))
            group.create_task(Heartbeat(self.client, self.nodes, port).run())
            group.create_task(self.host.events.run())
            group.create_task(storage.ensure_class(self.client))
            volumes = self.start.settings.directory / "volumes"
            group.create_task(storage.Provisioner(self.client, self.nodes, volumes).run())
            group.create_task(self.services.run())
            group.create_task(self.pods.run())
            await self.pods.synced.wait()
            # Only a complete list says that a pod is gone.
            for folder in records.pods(self.start.settings.directory):
                if folder.path.name not in self._workers:
                    self._work(folder.path.name, None)

    def _log_server(self) -> Quiet:
        files, authority = self.start.certificate, self.start.client_ca
        config = uvicorn.Config(
            LogServer(self.host, known=authority is not None),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ssl_certfile=str(files[0]) if files else None,
            ssl_keyfile=str(files[1]) if files else None,
            ssl_ca_certs=str(authority) if authority else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if authority else ssl.CERT_NONE,
        )
        return Quiet(config)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            if pod:
                self._settle(pod["metadata"]["namespace"])
        if old and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            worker = self._workers.get(old["metadata"]["uid"])
            if worker:
                worker.update(None)
        if new and new["spec"].get("nodeName") in self.nodes:
            uid = new["metadata"]["uid"]
            if uid in self._workers:
                self._workers[uid].update(new)
            else:
                self._work(uid, new)

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        for service in (old, new):
            if service:
                self._settle(service["metadata"]["namespace"])

    def _settle(self, namespace: str) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_later(SETTLE, self._settled)
        self._dirty.add(namespace)

    def _settled(self) -> None:
        namespaces, self._dirty = self._dirty, set()
        self.host.refresh_hosts(namespaces)
        self.host.regrant()

    def _wake(self, uid: str) -> None:
        if uid in self._workers:
            self._workers[uid].wake.set()

    def _work(self, uid: str, pod: Object | None) -> None:
        worker = self._workers[uid] = PodWorker(self.host, uid, pod)
        task = asyncio.create_task(worker.run(), name=uid)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._workers.pop(task.get_name(), None)
        if not task.cancelled() and task.exception():
            log.error("pod %s is given up until it changes", task.get_name(), exc_info=task.exception())
