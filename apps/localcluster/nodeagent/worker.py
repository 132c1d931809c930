"""Looks after one pod: compares what is wanted with what runs, and does what is missing. Any step may be the last one
of this agent; the next agent goes on from the disk and the API."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from apps.localcluster.client import ApiError
from apps.localcluster.nodeagent import launch, records, restarts, slots, status
from apps.localcluster.nodeagent.fleet import HOST_IP
from apps.localcluster.nodeagent.host import DEFAULT_GRACE, Host, NoDevices
from apps.localcluster.nodeagent.images import Image
from apps.localcluster.nodeagent.records import Attempt, PodFolder, PodRecord
from apps.localcluster.nodeagent.restarts import Later, Start, Stay
from apps.localcluster.nodeagent.shim import now
from apps.localcluster.nodeagent.starter import Starter
from apps.localcluster.nodeagent.status import Report, Seen, Waiting
from apps.localcluster.nodeagent.volumes import VolumeError

Object = dict[str, Any]
log = logging.getLogger(__name__)
CREATING = "ContainerCreating"
RETRY = (0.2, 10.0)  # seconds between tries after a failure: first and longest
CONFIG_RETRY = 3.0  # seconds until a secret or configmap that is missing is asked for again
FOREVER = 3600.0
STALE = (404, 409, 422)  # the object is not the one we know: look again


@dataclass
class Round:
    """What one look at a pod found: waiting containers by name, and when to look again at the latest."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    seconds: float = FOREVER

    def wait(self, name: str, waiting: Waiting, seconds: float = FOREVER) -> None:
        self.waiting[name] = waiting
        self.seconds = min(self.seconds, seconds)


class PodWorker:
    """One task a pod. `pod` is the newest known object, None once it is gone from the API."""

    def __init__(self, host: Host, uid: str, pod: Object | None) -> None:
        self.host, self.uid, self.pod = host, uid, pod
        self.folder: PodFolder = host.folder(uid)
        self.starter = Starter(host, self.folder)
        self.wake = asyncio.Event()
        self.finished = False
        self._watched: set[Path] = set()
        self._mount_tries = 0

    def update(self, pod: Object | None) -> None:
        """Take a newer object from the API."""
        if pod and self.pod and int(pod["metadata"]["resourceVersion"]) < int(self.pod["metadata"]["resourceVersion"]):
            return  # an event from before our own last write
        self.pod = pod
        self.wake.set()

    async def run(self) -> None:
        pause = RETRY[0]
        while not self.finished:
            self.wake.clear()
            try:
                seconds = await self.step()
                pause = RETRY[0]
            except ApiError as error:
                seconds, pause = pause, min(pause * 2, RETRY[1])
                log.info("pod %s: %s", self.uid, error)
                if error.status in STALE:
                    await self._look_again()
            except (httpx.TransportError, OSError) as error:
                seconds, pause = pause, min(pause * 2, RETRY[1])
                log.warning("pod %s: %r", self.uid, error)
            if not self.finished:
                try:
                    await asyncio.wait_for(self.wake.wait(), seconds)
                except TimeoutError:
                    pass

    async def _look_again(self) -> None:
        if not self.pod:
            return
        metadata = self.pod["metadata"]
        try:
            fresh = await self.host.client.get(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")
        except ApiError as error:
            if error.status == 404:
                self.pod = None
        except httpx.TransportError:
            pass
        else:
            self.pod = fresh if fresh["metadata"]["uid"] == self.uid else None

    async def step(self) -> float:
        """One look; returns seconds until the next if nothing happens before."""
        self.host.reap()
        pod = self.pod
        if pod is None:
            record = self.host.records.get(self.uid) or self.folder.read()
            if self._stop(record.grace if record else DEFAULT_GRACE):
                return self._patience()
            self._forget()
            return 0
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            return await self._end(pod, metadata.get("deletionGracePeriodSeconds", DEFAULT_GRACE))
        if (pod.get("status") or {}).get("phase") in status.ENDED:
            if self._stop(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)):
                return self._patience()
            self.host.release(self.uid)
            return FOREVER
        return await self._keep(pod)

    # --- ending

    def _stop(self, grace: float) -> bool:
        """Tell whatever still runs to end; False when nothing does."""
        living = self.folder.living()
        for attempt in living:
            if self.pod and self.host.once(self.uid, "Killing", str(attempt.folder)):
                name = attempt.folder.parent.name
                self.host.events.normal(self.pod, "Killing", f"Stopping container {name}", name)
            records.ask_to_stop(attempt, grace)
            self._watch(attempt)
        return bool(living)

    def _patience(self) -> float:
        """A shim that is only just starting may miss its first call."""
        return 0.5 if any(not attempt.started for attempt in self.folder.living()) else 5.0

    async def _end(self, pod: Object, grace: float) -> float:
        if self._stop(grace):
            await self._report(pod, Round(), ending=True)
            return self._patience()
        if (pod.get("status") or {}).get("phase") not in status.ENDED and self.uid in self.host.records:
            pod = await self._report(pod, Round(), ending=True)
        self.host.release(self.uid)
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        await self.host.client.delete(path, grace=0, uid=self.uid)
        self._forget()
        return 0

    def _forget(self) -> None:
        self.host.release(self.uid)
        self.folder.discard()
        self.finished = True

    # --- running

    async def _keep(self, pod: Object) -> float:
        try:
            record = self.host.accept(pod)
        except NoDevices as error:
            reason = f"OutOf{slots.GPU}"
            self.host.events.warning(pod, reason, str(error))
            await self._report(pod, Round(), failure=(reason, str(error)))
            return FOREVER
        found = Round()
        await self._drive(pod, record, found)
        for attempts in self._attempts(pod).values():
            if attempts and attempts[-1].alive:
                self._watch(attempts[-1])
                if not attempts[-1].started:  # begun by an agent that did not live to see it run
                    found.seconds = min(found.seconds, 0.3)
        reported = await self._report(pod, found)
        if reported["status"].get("phase") in status.ENDED:
            self.host.release(self.uid)
        return found.seconds

    def _attempts(self, pod: Object) -> dict[str, list[Attempt]]:
        return {c["name"]: self.folder.attempts(c["name"]) for c in _containers(pod)}

    async def _drive(self, pod: Object, record: PodRecord, found: Round) -> None:
        """Start what has to run now and is not running."""
        policy, attempts = pod["spec"].get("restartPolicy", "Always"), self._attempts(pod)
        due: list[tuple[Object, Start]] = []
        for init in pod["spec"].get("initContainers") or ():
            last = _last(attempts[init["name"]])
            verdict = self._decide(pod, init, last, "OnFailure" if policy == "Always" else policy, found)
            if isinstance(verdict, Start):
                due.append((init, verdict))
            if not (isinstance(verdict, Stay) and verdict.done and last and last.ended and last.ended["code"] == 0):
                self._hold_back(pod, attempts, found, init["name"])
                break
        else:
            for container in pod["spec"]["containers"]:
                last = _last(attempts[container["name"]])
                verdict = self._decide(pod, container, last, policy, found)
                if isinstance(verdict, Start):
                    due.append((container, verdict))
        if due:
            await self._start(pod, record, due, found)

    def _hold_back(self, pod: Object, attempts: dict[str, list[Attempt]], found: Round, current: str) -> None:
        """All that has not begun waits for this init container."""
        for container in _containers(pod):
            if container["name"] != current and not attempts[container["name"]]:
                found.wait(container["name"], Waiting("PodInitializing"))

    def _decide(
        self, pod: Object, container: Object, last: Attempt | None, policy: str, found: Round
    ) -> Start | Later | Stay:
        verdict = restarts.decide(last, policy, time.time(), self.host.settings.restart_delay)
        if isinstance(verdict, Later):
            name, metadata = container["name"], pod["metadata"]
            where = f"{metadata['name']}_{metadata['namespace']}({self.uid})"
            message = f"back-off {verdict.pause:g}s restarting failed container={name} pod={where}"
            found.wait(name, Waiting("CrashLoopBackOff", message), verdict.seconds)
            if last and self.host.once(self.uid, name, f"restart {last.number}"):
                told = f"Back-off restarting failed container {name} in pod {where}"
                self.host.events.warning(pod, "BackOff", told, name)
        return verdict

    async def _start(self, pod: Object, record: PodRecord, due: list[tuple[Object, Start]], found: Round) -> None:
        known: list[tuple[Object, Start, Image]] = []
        for container, plan in due:
            image = self.starter.image(pod, container)
            if isinstance(image, Image):
                known.append((container, plan, image))
            else:
                found.wait(container["name"], *image)
        if not known:
            return
        around = await self._surroundings(pod, record, found)
        if around is None or not self._slot(pod, found):
            for container, _, _ in known:
                found.waiting.setdefault(container["name"], Waiting(CREATING))
            return
        for container, plan, image in known:
            waiting = await self.starter.start(container, image, plan, around)
            if waiting:
                found.wait(container["name"], waiting, CONFIG_RETRY)
            else:
                self._look_at_once(container["name"], found)

    def _look_at_once(self, name: str, found: Round) -> None:
        """A container that could not start, or ended within a moment, is dealt with in the next look."""
        last = _last(self.folder.attempts(name))
        if last is None or last.ended or not last.started:
            found.seconds = 0.0

    async def _surroundings(self, pod: Object, record: PodRecord, found: Round) -> launch.Surroundings | None:
        try:
            around = await self.starter.surroundings(pod, record)
        except VolumeError as error:
            if self.host.once(self.uid, "FailedMount", str(error)):
                self.host.events.warning(pod, "FailedMount", str(error))
            self._mount_tries += 1
            found.seconds = min(found.seconds, restarts.backoff(self._mount_tries, 0.5), 120)
            return None
        self._mount_tries = 0
        return around

    def _slot(self, pod: Object, found: Round) -> bool:
        """Whether the pod has its slots; says so on the pod if not."""
        self.host.ready.add(self.uid)
        if not self.host.records[self.uid].granted:
            self.host.regrant()
        if self.host.records[self.uid].granted:
            return True
        message = (
            f"waits for a free process slot on this machine (at most {self.host.settings.limit} containers run at once)"
        )
        for container in _containers(pod):
            found.waiting.setdefault(container["name"], Waiting(CREATING, message))
        if self.host.once(self.uid, "slot"):
            self.host.events.normal(pod, "WaitingForSlot", f"Pod {message}")
        return False

    # --- telling

    async def _report(
        self, pod: Object, found: Round, *, ending: bool = False, failure: tuple[str, str] | None = None
    ) -> Object:
        """Write the pod's status if it changed; returns the object as it is then. Raises ApiError, TransportError."""
        record, attempts = self.host.records.get(self.uid), self._attempts(pod)
        seen = {
            c["name"]: Seen(c["name"], c["image"], attempts[c["name"]], found.waiting.get(c["name"]))
            for c in _containers(pod)
        }
        report = Report(
            pod=pod,
            ip=record.ip if record else "",
            host_ip=HOST_IP,
            accepted=record.accepted if record else now(),
            inits=[seen[c["name"]] for c in pod["spec"].get("initContainers") or ()],
            containers=[seen[c["name"]] for c in pod["spec"]["containers"]],
            ending=ending,
            failure=failure,
        )
        wanted = status.pod_status(report, now())
        if not status.differs(wanted, pod.get("status") or {}):
            return pod
        metadata = pod["metadata"]
        condition = {"uid": self.uid, "resourceVersion": metadata["resourceVersion"]}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        answer = await self.host.client.merge_patch(path, {"metadata": condition, "status": wanted})
        if self.pod is pod:
            self.pod = answer
        return answer

    def _watch(self, attempt: Attempt) -> None:
        """Be woken when a shim ends."""
        if attempt.folder in self._watched or not attempt.shim:
            return
        try:
            file = os.pidfd_open(attempt.shim)
        except ProcessLookupError:
            self.wake.set()
            return
        if not records.attempt(attempt.folder).alive:  # the number may be another process's by now
            os.close(file)
            self.wake.set()
            return
        self._watched.add(attempt.folder)
        asyncio.get_running_loop().add_reader(file, self._ended, file, attempt.folder)

    def _ended(self, file: int, folder: Path) -> None:
        asyncio.get_running_loop().remove_reader(file)
        os.close(file)
        self._watched.discard(folder)
        self.wake.set()


def _containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def _last(attempts: list[Attempt]) -> Attempt | None:
    return attempts[-1] if attempts else None
