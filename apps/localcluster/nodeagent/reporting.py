"""Writes a pod's status as one look at it found it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.nodeagent import status
from apps.localcluster.nodeagent.fleet import HOST_IP
from apps.localcluster.nodeagent.host import Host
from apps.localcluster.nodeagent.probes import Prober
from apps.localcluster.nodeagent.records import Attempt, PodFolder
from apps.localcluster.nodeagent.shim import now
from apps.localcluster.nodeagent.status import Report, Seen, Waiting

Object = dict[str, Any]
FOREVER = 3600.0


@dataclass
class Round:
    """What one look at a pod found: waiting containers by name, and when to look again at the latest."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    seconds: float = FOREVER

    def wait(self, name: str, waiting: Waiting, seconds: float = FOREVER) -> None:
        self.waiting[name] = waiting
        self.again(seconds)

    def again(self, seconds: float) -> None:
        self.seconds = min(self.seconds, seconds)


def is_sidecar(container: Object) -> bool:
    """Of an init container: whether it stays beside the others instead of ending before them."""
    return container.get("restartPolicy") == "Always"


def containers_of(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def last_of(attempts: list[Attempt]) -> Attempt | None:
    return attempts[-1] if attempts else None


@dataclass(frozen=True)
class Reporter:
    """For one pod."""

    host: Host
    uid: str
    folder: PodFolder
    prober: Prober

    def attempts(self, pod: Object) -> dict[str, list[Attempt]]:
        """By container, oldest first."""
        return {c["name"]: self.folder.attempts(c["name"]) for c in containers_of(pod)}

    async def report(
        self, pod: Object, found: Round, *, ending: bool = False, failure: tuple[str, str] | None = None
    ) -> Object:
        """Write the pod's status if it changed; returns the object as it is then. Raises ApiError, TransportError."""
        record, attempts = self.host.records.get(self.uid), self.attempts(pod)
        inits = pod["spec"].get("initContainers") or ()
        report = Report(
            pod=pod,
            ip=record.ip if record else (pod.get("status") or {}).get("podIP", ""),
            host_ip=HOST_IP,
            accepted=record.accepted if record else (pod.get("status") or {}).get("startTime", now()),
            inits=[self._seen(c, attempts, found, init=True) for c in inits],
            containers=[self._seen(c, attempts, found) for c in pod["spec"]["containers"]],
            ending=ending,
            failure=failure,
        )
        wanted = status.pod_status(report, now())
        if not status.differs(wanted, pod.get("status") or {}):
            return pod
        metadata = pod["metadata"]
        condition = {"uid": self.uid, "resourceVersion": metadata["resourceVersion"]}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        return await self.host.client.merge_patch(path, {"metadata": condition, "status": wanted})

    def _seen(self, container: Object, attempts: dict[str, list[Attempt]], found: Round, *, init: bool = False) -> Seen:
        name = container["name"]
        return Seen(
            name,
            container["image"],
            attempts[name],
            found.waiting.get(name),
            init=init,
            sidecar=init and is_sidecar(container),
            started=self.prober.started(name),
            healthy=self.prober.ready(name),
        )
