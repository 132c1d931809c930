"""Starts one container of a pod: what its pod refers to, volumes, image, shim."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.localcluster.client import ApiError
from apps.localcluster.nodeagent import environment, images, launch, restarts, storage, volumes
from apps.localcluster.nodeagent.environment import ConfigError, Facts, Ref
from apps.localcluster.nodeagent.fleet import HOST_IP
from apps.localcluster.nodeagent.host import Host
from apps.localcluster.nodeagent.images import Image
from apps.localcluster.nodeagent.machine import ROOT, module
from apps.localcluster.nodeagent.records import PodFolder, PodRecord, attempt
from apps.localcluster.nodeagent.restarts import Start
from apps.localcluster.nodeagent.shim import Order
from apps.localcluster.nodeagent.status import Waiting

Object = dict[str, Any]
SHOWN = 2.0  # seconds a container shows ErrImagePull before it shows ImagePullBackOff
START_TIMEOUT = 20.0
TOKEN_SECONDS = 7 * 86400  # tokens are not renewed in a running pod, so they live longer than its jobs


async def until_closed(file: int, seconds: float) -> None:
    """Wait until the other end of a pipe is closed. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    closed: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not closed.done():
            closed.set_result(None)

    loop.add_reader(file, readable)
    try:
        await asyncio.wait_for(closed, seconds)
    finally:
        loop.remove_reader(file)


@dataclass
class Starter:
    """Holds what has to be remembered between two tries of one pod."""

    host: Host
    folder: PodFolder
    _pulls: dict[str, tuple[int, float]] = field(default_factory=dict)

    def image(self, pod: Object, container: Object) -> Image | tuple[Waiting, float]:
        """The image of a container, or what it waits for and in how many seconds to look again."""
        name, said = container["image"], container["name"]
        row = images.find(self.host.images, name)
        if row:
            return row
        if not images.is_reference(name):
            message = f'couldn\'t parse image name "{name}": invalid reference format'
            if self.host.once(pod["metadata"]["uid"], said, "InspectFailed"):
                self.host.events.warning(pod, "InspectFailed", message, said)
                self.host.events.warning(pod, "Failed", "Error: InvalidImageName", said)
            return Waiting("InvalidImageName", message), restarts.LONGEST
        return self._pull(pod, name, said)

    def _pull(self, pod: Object, name: str, container: str) -> tuple[Waiting, float]:
        tries, tried = self._pulls.get(name, (0, -restarts.LONGEST))
        now, pause = time.monotonic(), restarts.backoff(tries, self.host.settings.restart_delay)
        events = self.host.events
        problem = f'failed to pull and unpack image "{name}": not found: this node has no image of that name'
        if now - tried >= pause:
            events.normal(pod, "Pulling", f'Pulling image "{name}"', container)
            events.warning(pod, "Failed", f'Failed to pull image "{name}": {problem}', container)
            events.warning(pod, "Failed", "Error: ErrImagePull", container)
            tries, tried = tries + 1, now
            pause = restarts.backoff(tries, self.host.settings.restart_delay)
            self._pulls[name] = (tries, tried)
        shown = min(SHOWN, pause / 2)
        if now - tried < shown:
            return Waiting("ErrImagePull", problem), tried + shown - now
        if self.host.once(pod["metadata"]["uid"], container, f"pull {tries}"):
            events.normal(pod, "BackOff", f'Back-off pulling image "{name}"', container)
            events.warning(pod, "Failed", "Error: ImagePullBackOff", container)
        message = f'Back-off pulling image "{name}": ErrImagePull: {problem}'
        return Waiting("ImagePullBackOff", message), tried + pause - now

    async def surroundings(self, pod: Object, record: PodRecord) -> launch.Surroundings:
        """Volumes and whatever the pod's containers refer to. Raises VolumeError, ApiError, TransportError."""
        parts = pod["spec"].get("volumes") or []
        containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
        refs = volumes.references(parts).union(*(environment.references(c) for c in containers))
        found = {ref: data for ref in sorted(refs) if (data := await self._data(record.namespace, ref)) is not None}
        facts = Facts(pod, record.ip, HOST_IP, self.host.nodes[record.node].capacity, found)
        context = pod["spec"].get("securityContext") or {}
        switches = self.host.machine.switches_users
        contexts = [launch.security(pod, container) for container in containers]
        shared = switches and any(c.get("runAsUser") is not None for c in contexts)
        place = volumes.Place(
            pod_folder=self.folder.path,
            claims_folder=self.host.settings.directory / "volumes" / record.namespace,
            claims={c: uid for c in volumes.claims(parts) if (uid := await self._claim(record.namespace, c))},
            group=context.get("fsGroup") if switches else None,
            shared=shared,
            tokens=await self._tokens(pod, parts),
        )
        if shared and not self.host.machine.mounts:
            self._open_folders()
        folders = {volume["name"]: volumes.prepare(volume, place, facts) for volume in parts}
        settings, hosts = self.host.settings, self.folder.path / "hosts"
        return launch.Surroundings(
            facts, self.host.machine, folders, hosts, record.devices, settings.log_bytes, settings.log_files
        )

    def _open_folders(self) -> None:
        """Without private mounts another user walks to its volumes by their real path."""
        for folder in (self.host.settings.directory, self.folder.path.parent, self.folder.path):
            folder.chmod(folder.stat().st_mode | 0o011)

    async def _data(self, namespace: str, ref: Ref) -> dict[str, bytes] | None:
        try:
            item = await self.host.client.get(f"/api/v1/namespaces/{namespace}/{ref[0]}/{ref[1]}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return environment.data_of({**item, "kind": "Secret" if ref[0] == "secrets" else "ConfigMap"})

    async def _claim(self, namespace: str, claim: str) -> str:
        """Uid of a claim, which is bound to its folder; empty if there is none."""
        try:
            found = await self.host.client.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
        except ApiError as error:
            if error.status == 404:
                return ""
            raise
        await storage.bind(self.host.client, found, str(self.host.settings.directory / "volumes" / namespace / claim))
        return str(found["metadata"]["uid"])

    async def _tokens(self, pod: Object, parts: list[Object]) -> dict[str, bytes]:
        """Service account tokens for projected volumes, by audience. A server that gives none leaves them empty."""
        metadata, found = pod["metadata"], {}
        account = pod["spec"].get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        for audience in volumes.audiences(parts):
            bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            spec: Object = {"expirationSeconds": TOKEN_SECONDS, "boundObjectRef": bound}
            spec["audiences"] = [audience] if audience else []
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            try:
                answer = await self.host.client.create(path, body)
            except ApiError as error:
                if error.status not in (404, 405, 501):
                    raise
                continue
            found[audience] = answer["status"]["token"].encode()
        return found

    async def start(self, container: Object, image: Image, plan: Start, around: launch.Surroundings) -> Waiting | None:
        """Start one attempt; what stands in the way of it, or None. A missing program counts as an attempt."""
        pod, name, events = around.facts.pod, container["name"], self.host.events
        folder = self.folder.new_attempt(name, plan.number, plan.streak)
        try:
            order = launch.order(folder, container, image, around)
        except ConfigError as error:
            if self.host.once(pod["metadata"]["uid"], name, str(error)):
                events.warning(pod, "Failed", f"Error: {error}", name)
            return Waiting("CreateContainerConfigError", str(error))
        self._tell_limits(pod, container)
        present = f'Container image "{container["image"]}" already present on machine and can be accessed by the pod'
        events.normal(pod, "Pulled", present, name)
        events.normal(pod, "Created", "Container created", name)
        await self.spawn(order)
        done = attempt(folder)
        if done.ended and done.ended["reason"] == "StartError":
            events.warning(pod, "Failed", f"Error: {done.ended['message']}", name)
        elif done.started:
            events.normal(pod, "Started", "Container started", name)
        return None

    async def spawn(self, order: Order) -> None:
        """Start a shim and wait until its container runs or cannot. Raises TimeoutError, OSError."""
        # In memory, not in a file: the environment may hold secrets.
        document = os.memfd_create("order")
        read, write = os.pipe()
        try:
            os.write(document, order.encode())
            os.lseek(document, 0, os.SEEK_SET)
            with (Path(order.folder) / "shim.log").open("ab") as errors:
                shim = subprocess.Popen(
                    module("shim"),
                    stdin=document,
                    stdout=write,
                    stderr=errors,
                    cwd=ROOT,
                    env={},
                    start_new_session=True,
                )
            os.close(write)
            write = -1
            self.host.children.append(shim)
            await until_closed(read, START_TIMEOUT)
        finally:
            for file in (document, read, write):
                if file >= 0:
                    os.close(file)

    def _tell_limits(self, pod: Object, container: Object) -> None:
        """Say on the pod what this machine does not allow, and what was done instead."""
        machine, uid = self.host.machine, pod["metadata"]["uid"]
        wants = launch.security(pod, container).get("runAsUser")
        if wants is not None and not machine.switches_users and wants != os.geteuid() and self.host.once(uid, "user"):
            message = (
                f"runAsUser {wants} is not honoured: the node agent is not root, containers run as user {os.geteuid()}"
            )
            self.host.events.warning(pod, "RunAsUserIgnored", message)
        if not machine.mounts and self.host.once(uid, "mounts"):
            message = (
                f"This machine allows no private mounts ({machine.reason}). Instead, paths below a mount path were "
                "replaced in command, args and env, each volume's folder stands in MAAS_VOLUME_<NAME>, and the "
                "addresses of peers stand in the file MAAS_HOSTS_FILE."
            )
            self.host.events.warning(pod, "NoPrivateMounts", message)
