"""Looks after one pod: compares what is wanted with what runs, and does what is missing. Any step may be the last one
of this agent; the next agent goes on from the disk and the API."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import httpx

from apps.localcluster.client import ApiError
from apps.localcluster.nodeagent import launch, records, restarts, slots, starting, status
from apps.localcluster.nodeagent.host import DEFAULT_GRACE, Host, NoDevices
from apps.localcluster.nodeagent.images import Image
from apps.localcluster.nodeagent.probes import Prober
from apps.localcluster.nodeagent.records import Attempt, PodFolder, PodRecord
from apps.localcluster.nodeagent.reporting import FOREVER, Reporter, Round, containers_of, is_sidecar, last_of
from apps.localcluster.nodeagent.restarts import Later, Start, Stay
from apps.localcluster.nodeagent.starter import Starter
from apps.localcluster.nodeagent.starting import PostStarts
from apps.localcluster.nodeagent.status import Waiting
from apps.localcluster.nodeagent.stopping import LEAST, Stopper
from apps.localcluster.nodeagent.volumes import VolumeError

Object = dict[str, Any]
log = logging.getLogger(__name__)
CREATING = "ContainerCreating"
RETRY = (0.2, 10.0)  # seconds between tries after a failure: first and longest
CONFIG_RETRY = 3.0  # seconds until a secret or configmap that is missing is asked for again
STALE = (404, 409, 422)  # the object is not the one we know: look again
OVERDUE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class PodWorker:
    """One task a pod. `pod` is the newest known object, None once it is gone from the API."""

    def __init__(self, host: Host, uid: str, pod: Object | None) -> None:
        self.host, self.uid, self.pod = host, uid, pod
        self.folder: PodFolder = host.folder(uid)
        self.starter = Starter(host, self.folder)
        self.wake = asyncio.Event()
        self.finished = False
        self.prober = Prober(host.actions, self._unhealthy, self.wake.set)
        self.post_starts = PostStarts(host.actions, self.wake.set)
        self.stopper = Stopper(host.actions, host.events)
        self.reporter = Reporter(host, uid, self.folder, self.prober)
        self._deadline: float | None = None  # of the end of all containers, on the monotonic clock
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
            return await self._end(pod, _grace_left(metadata))
        if (pod.get("status") or {}).get("phase") in status.ENDED:
            if self._stop(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)):
                return self._patience()
            self.folder.unmount()
            if self.uid in self.host.records:  # it was ended before its containers were
                await self._report(pod, Round(), ending=True, failure=_failure(pod))
                self.host.release(self.uid)
            return FOREVER
        return await self._keep(pod)

    # --- ending

    def _stop(self, grace: float) -> bool:
        """Tell what still runs to end, sidecars last and the latest of them first; False when nothing does."""
        self.prober.hush()
        self.post_starts.forget()
        living, now = self.folder.living(), time.monotonic()
        self._deadline = min(now + grace, self._deadline if self._deadline is not None else now + grace)
        inits = (self.pod["spec"].get("initContainers") or ()) if self.pod else ()
        order = [init["name"] for init in inits if is_sidecar(init)]
        late = sorted((a for a in living if a.folder.parent.name in order), key=lambda a: order.index(_name(a)))
        first = [a for a in living if a not in late]
        due = living if now >= self._deadline else first or late[-1:]
        for attempt in due:
            least = LEAST if attempt in late else 0.0
            self.stopper.stop(self.pod, attempt, max(least, self._deadline - now))
            self._watch(attempt)
        return bool(living)

    def _patience(self) -> float:
        """A shim that is only just starting may miss its first call; sidecars may have to go before their turn."""
        if any(not attempt.started for attempt in self.folder.living()):
            return 0.5
        left = (self._deadline or 0.0) - time.monotonic()
        return min(5.0, left + 0.05) if left > 0 else 5.0

    async def _end(self, pod: Object, grace: float) -> float:
        if self._stop(grace):
            await self._report(pod, Round(), ending=True)
            return self._patience()
        if self.uid in self.host.records:
            pod = await self._report(pod, Round(), ending=True, failure=_failure(pod))
        self.host.release(self.uid)
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        await self.host.client.delete(path, grace=0, uid=self.uid)
        self._forget()
        return 0

    def _forget(self) -> None:
        self.prober.stop()
        self.post_starts.forget()
        self.stopper.forget()
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
        if self._overdue(pod, record, found):
            self.host.events.normal(pod, *OVERDUE)
            self._stop(record.grace)
            await self._report(pod, found, ending=True, failure=OVERDUE)
            return 0
        await self._drive(pod, record, found)
        self._attend(pod, record, found)
        reported = await self._report(pod, found)
        if reported["status"].get("phase") in status.ENDED and not self.folder.living():
            self.folder.unmount()
            self.host.release(self.uid)
        return found.seconds

    def _overdue(self, pod: Object, record: PodRecord, found: Round) -> bool:
        limit = pod["spec"].get("activeDeadlineSeconds")
        if limit is None:
            return False
        left: float = restarts.epoch(record.accepted) + limit - time.time()
        found.again(max(left, 0.0))
        return left <= 0

    def _attend(self, pod: Object, record: PodRecord, found: Round) -> None:
        """Hooks and probes of what runs, and the end of what they condemn."""
        attempts, running = self.reporter.attempts(pod), {}
        known = {each["name"]: each for each in status.entries(pod)}
        for container in containers_of(pod):
            name, last = container["name"], last_of(attempts[container["name"]])
            if last is None or not last.alive:
                continue
            self._watch(last)
            if not last.started:  # begun by an agent that did not live to see it run
                found.again(0.3)
            if not last.running:
                continue
            outcome = self.post_starts.outcome(container, last, record.ip)
            if outcome == starting.DONE:
                running[name] = (last, container, known.get(name) or {})
            elif outcome == starting.FAILED:
                if not self.stopper.is_stopping(last):
                    self.host.events.warning(pod, "FailedPostStartHook", "PostStartHook failed", name)
                self.stopper.stop(pod, last, record.grace, "FailedPostStartHook")
            else:
                found.wait(name, Waiting(CREATING))
        before = {name for name in running if self.prober.started(name)}
        self.prober.attend(running, record.ip)
        if any(self.prober.started(name) and name not in before for name in running):
            found.again(0.0)  # what waited for a sidecar may begin
        for name, kind in self.prober.condemned().items():
            self._condemn(pod, record, running[name][0], running[name][1], kind)

    def _condemn(self, pod: Object, record: PodRecord, attempt: Attempt, container: Object, kind: str) -> None:
        policy = "Always" if is_sidecar(container) else pod["spec"].get("restartPolicy", "Always")
        message = f"Container {container['name']} failed {kind} probe"
        message += "" if policy == "Never" else ", will be restarted"
        grace = container[f"{kind}Probe"].get("terminationGracePeriodSeconds")
        self.stopper.stop(pod, attempt, record.grace if grace is None else grace, message)

    def _unhealthy(self, container: str, message: str) -> None:
        if self.pod:
            self.host.events.warning(self.pod, "Unhealthy", message, container)

    async def _drive(self, pod: Object, record: PodRecord, found: Round) -> None:
        """Start what has to run now and is not running."""
        policy, attempts = pod["spec"].get("restartPolicy", "Always"), self.reporter.attempts(pod)
        inits, containers = pod["spec"].get("initContainers") or (), pod["spec"]["containers"]
        due: list[tuple[Object, Start]] = []
        verdicts: list[Start | Later | Stay] = []

        def decide(container: Object, rule: str) -> Start | Later | Stay:
            verdict = self._decide(pod, container, last_of(attempts[container["name"]]), rule, found)
            if isinstance(verdict, Start):
                due.append((container, verdict))
            return verdict

        begun = any(attempts[container["name"]] for container in containers)
        for init in () if begun else inits:
            decide(init, "Always" if is_sidecar(init) else "OnFailure" if policy == "Always" else policy)
            if not self._is_done(init, last_of(attempts[init["name"]])):
                self._hold_back(pod, attempts, found, init["name"])
                break
        else:
            verdicts = [decide(container, policy) for container in containers]
            if begun and all(isinstance(verdict, Stay) and verdict.done for verdict in verdicts):
                self._stop(record.grace)  # the sidecars
                return
            for init in inits if begun else ():
                if is_sidecar(init):
                    decide(init, "Always")
        if due:
            await self._start(pod, record, due, found)

    def _is_done(self, init: Object, last: Attempt | None) -> bool:
        """Whether what comes after this init container may begin."""
        if is_sidecar(init):
            return self.prober.started(init["name"]) and last is not None and last.running
        return last is not None and last.ended is not None and last.ended["code"] == 0

    def _hold_back(self, pod: Object, attempts: dict[str, list[Attempt]], found: Round, current: str) -> None:
        """All that has not begun waits for this init container."""
        for container in containers_of(pod):
            if container["name"] != current and not attempts[container["name"]]:
                found.wait(container["name"], Waiting("PodInitializing"))

    def _decide(
        self, pod: Object, container: Object, last: Attempt | None, policy: str, found: Round
    ) -> Start | Later | Stay:
        verdict = restarts.decide(last, policy, time.time(), self.host.settings.restart_delay)
        if isinstance(verdict, Later):
            name, metadata = container["name"], pod["metadata"]
            where = f"{metadata['name']}_{metadata['namespace']}({self.uid})"
            message = f"back-off {restarts.duration(verdict.pause)} restarting failed container={name} pod={where}"
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
        last = last_of(self.folder.attempts(name))
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
        for container in containers_of(pod):
            found.waiting.setdefault(container["name"], Waiting(CREATING, message))
        if self.host.once(self.uid, "slot"):
            self.host.events.normal(pod, "WaitingForSlot", f"Pod {message}")
        return False

    # --- telling

    async def _report(
        self, pod: Object, found: Round, *, ending: bool = False, failure: tuple[str, str] | None = None
    ) -> Object:
        """Write the pod's status if it changed; returns the object as it is then. Raises ApiError, TransportError."""
        answer = await self.reporter.report(pod, found, ending=ending, failure=failure)
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


def _name(attempt: Attempt) -> str:
    return attempt.folder.parent.name


def _failure(pod: Object) -> tuple[str, str] | None:
    """Why this agent has given up a pod, if it has."""
    seen = pod.get("status") or {}
    return (seen["reason"], seen.get("message", "")) if seen.get("phase") == "Failed" and seen.get("reason") else None


def _grace_left(metadata: Object) -> float:
    """Seconds that the containers of a deleted pod still have. The time of its end has been cut to whole seconds."""
    grace: float = metadata.get("deletionGracePeriodSeconds", DEFAULT_GRACE)
    return max(0.0, min(grace, restarts.epoch(metadata["deletionTimestamp"]) + 1 - time.time()))
