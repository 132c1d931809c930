"""What all pods of this agent share: its settings, the API, and who holds which slot, device and address."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from apps.localcluster.client import Key, KubeClient
from apps.localcluster.nodeagent import network, records, slots
from apps.localcluster.nodeagent.actions import Actions
from apps.localcluster.nodeagent.events import OncePer, Recorder
from apps.localcluster.nodeagent.fleet import Node
from apps.localcluster.nodeagent.images import Image
from apps.localcluster.nodeagent.machine import Machine
from apps.localcluster.nodeagent.records import PodFolder, PodRecord
from apps.localcluster.nodeagent.shim import now
from apps.localcluster.nodeagent.status import ENDED

Object = dict[str, Any]
log = logging.getLogger(__name__)
REPEAT = 300.0  # seconds until a lasting trouble is told again
DEFAULT_GRACE = 30


@dataclass(frozen=True)
class Settings:
    """How the agent was started. Times in seconds; `limit` is the number of containers that run at once."""

    directory: Path
    limit: int = 4
    restart_delay: float = 10.0
    log_bytes: int = 10 << 20
    log_files: int = 5


class NoDevices(Exception):
    """The node has not what the pod was bound to it for; the text is the kubelet's."""


@dataclass
class Host:
    """Shared by all pod workers, all on one event loop. `pods` and `services` are the reflectors' stores."""

    settings: Settings
    client: KubeClient
    machine: Machine
    images: list[Image]
    nodes: Mapping[str, Node]
    events: Recorder
    pods: Mapping[Key, Object]
    services: Mapping[Key, Object]
    wake: Callable[[str], None]
    records: dict[str, PodRecord] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    actions: Actions = field(default_factory=Actions)
    once: OncePer = field(default_factory=lambda: OncePer(REPEAT))

    def load(self) -> None:
        """Remember what an earlier agent of this folder accepted."""
        for folder in records.pods(self.settings.directory):
            record = folder.read()
            if record:
                self.records[record.uid] = record

    def folder(self, uid: str) -> PodFolder:
        return PodFolder(self.settings.directory / "pods" / uid)

    def accept(self, pod: Object) -> PodRecord:
        """Give a pod its address and devices, for as long as it lives. Raises NoDevices."""
        uid = pod["metadata"]["uid"]
        if uid in self.records:
            return self.records[uid]
        node = self.nodes[pod["spec"]["nodeName"]]
        capacity, count = int(node.capacity.get(slots.GPU, 0)), slots.gpus(pod)
        used = [number for record in self.records.values() if record.node == node.name for number in record.devices]
        numbers = slots.devices(count, capacity, used)
        if numbers is None:
            raise NoDevices(
                f"Pod was rejected: Node didn't have enough resource: {slots.GPU}, requested: {count}, "
                f"used: {len(used)}, capacity: {capacity}"
            )
        record = PodRecord(
            uid=uid,
            namespace=pod["metadata"]["namespace"],
            name=pod["metadata"]["name"],
            node=node.name,
            ip=network.address(uid, (record.ip for record in self.records.values())),
            accepted=now(),
            grace=pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE),
            devices=numbers,
            size=slots.size(pod),
        )
        self.folder(uid).write(record)
        self.records[uid] = record
        self.write_hosts(pod)
        self.refresh_hosts({record.namespace})
        return record

    def release(self, uid: str) -> None:
        """Take back what a pod held, once nothing of it runs. Its logs stay until it is deleted."""
        record = self.records.pop(uid, None)
        self.ready.discard(uid)
        if record:
            if self.folder(uid).path.exists():
                self.folder(uid).write(replace(record, devices=(), granted=False))
            self.regrant()

    def regrant(self) -> None:
        """Give free slots to those whose turn it is."""
        for uid in slots.grant(self._claims(), self.settings.limit):
            self.records[uid] = replace(self.records[uid], granted=True)
            self.folder(uid).write(self.records[uid])
            self.wake(uid)

    def _claims(self) -> list[slots.Claim]:
        """Claims of our pods and of the pods that belong to their groups, bound already or not."""
        alive = [p for p in self.pods.values() if (p.get("status") or {}).get("phase") not in ENDED]
        ours = {slots.group(p) for p in alive if p["metadata"]["uid"] in self.records}
        claims = {}
        for pod in alive:
            uid, name = pod["metadata"]["uid"], slots.group(pod)
            elsewhere = pod["spec"].get("nodeName", "") not in ("", *self.nodes)
            ending = "deletionTimestamp" in pod["metadata"] and uid not in self.records
            if name in ours and not elsewhere and not ending:
                since = str(pod["metadata"].get("creationTimestamp", ""))
                granted = uid in self.records and self.records[uid].granted
                claims[uid] = slots.Claim(uid, name, slots.size(pod), since, uid in self.ready, granted)
        for uid, record in self.records.items():
            if record.granted and uid not in claims:  # gone from the API, still being stopped
                claims[uid] = slots.Claim(uid, uid, record.size, "", granted=True)
        return list(claims.values())

    def write_hosts(self, pod: Object) -> None:
        """Bring a pod's hosts file up to date, in place: containers have it bound and would not see a new file."""
        record = self.records.get(pod["metadata"]["uid"])
        if not record:
            return
        peers = [p for (namespace, _), p in self.pods.items() if namespace == record.namespace]
        services = [s for (namespace, _), s in self.services.items() if namespace == record.namespace]
        given = {uid: other.ip for uid, other in self.records.items()}
        text = network.hosts(pod, peers, services, given).encode()
        path = self.folder(record.uid).path / "hosts"
        if not path.exists():
            path.write_bytes(text)
            path.chmod(0o644)
        elif path.read_bytes() != text:
            with path.open("r+b") as file:
                file.write(text)
                file.truncate()

    def refresh_hosts(self, namespaces: set[str]) -> None:
        for (namespace, _), pod in list(self.pods.items()):
            if namespace in namespaces:
                self.write_hosts(pod)

    def find(self, namespace: str, name: str) -> tuple[Object, PodFolder] | None:
        """A pod of ours and its folder, for the log server."""
        pod = self.pods.get((namespace, name))
        if not pod or pod["spec"].get("nodeName") not in self.nodes:
            return None
        return pod, self.folder(pod["metadata"]["uid"])

    def reap(self) -> None:
        """Collect shims that have ended, so that they do not stay as zombies."""
        self.children[:] = [child for child in self.children if child.poll() is None]
