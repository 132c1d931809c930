"""The job controller: brings pods, PodGroup and status of every job in line with its spec."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from apps.localcluster.client import ApiError, Key, KubeClient, key_of
from apps.localcluster.volcano import lifecycle, plugins, pods
from apps.localcluster.volcano.cache import Cache
from apps.localcluster.volcano.children import Children, ClaimError, PluginError
from apps.localcluster.volcano.events import Recorder
from apps.localcluster.volcano.lifecycle import Trigger
from apps.localcluster.volcano.objects import (
    BUS,
    CONTROLLER,
    CORE,
    JOBS,
    OUT_OF_SYNC,
    SCHEDULING,
    controller_of,
    deleting,
    group_name,
    moment,
    name,
    namespace,
    now,
    path,
    replicas,
    tasks,
    uid,
)
from apps.localcluster.volcano.work import Retry, WorkQueue

log = logging.getLogger(__name__)

Object = dict[str, Any]
AT_ONCE = 16  # pods made or deleted at the same time


@dataclass(frozen=True)
class Views:
    """What the job controller sees."""

    jobs: Cache
    pods: Cache
    groups: Cache
    queues: Cache
    commands: Cache
    priorities: Cache


@dataclass
class JobController:
    client: KubeClient
    views: Views
    recorder: Recorder
    made: Callable[[], None] = lambda: None
    """Called when the pods of a job have been made, as many as could be."""
    queue: WorkQueue = field(init=False)
    children: Children = field(init=False)
    making: set[Key] = field(default_factory=set)
    """PodGroups some of whose pods are being made: what is missing of them says nothing about the cluster."""
    _by_owner: dict[str, dict[Key, Object]] = field(default_factory=dict)
    _due: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.reconcile, workers=8)
        self.children = Children(self.client)

    # --- what wakes a job

    def job_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(key_of(new or old or {}))

    def child_changed(self, old: Object | None, new: Object | None) -> None:
        owner = controller_of(new or old or {})
        if owner and owner["kind"] == "Job" and owner["apiVersion"].startswith("batch.volcano.sh/"):
            self.queue.add((namespace(new or old or {}), owner["name"]))

    def pod_changed(self, old: Object | None, new: Object | None) -> None:
        for item, gone in ((old, True), (new, False)):
            owner = controller_of(item) if item else None
            if item and owner:
                mine = self._by_owner.setdefault(owner["uid"], {})
                mine.pop(key_of(item), None)
                if not gone:
                    mine[key_of(item)] = item
                elif not mine:
                    del self._by_owner[owner["uid"]]
        self.child_changed(old, new)

    def command_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and (new.get("target") or {}).get("kind") == "Job":
            self.queue.add((namespace(new), new["target"]["name"]))

    # --- one look at a job

    async def reconcile(self, key: Key) -> None:
        job = self.views.jobs.store.get(key)
        if job is None or deleting(job):
            await self._let_go(key, job)
            return
        if not (job.get("status") or {}).get("state"):
            await self._write(job, self._first_status(job))
            return
        for command in self._commands(key):
            job = await self._obey(job, command)
        mine = self._pods(job)
        trigger = await self._trigger(job, mine)
        if trigger is not None:
            before, job = job, await self._act(job, trigger, mine)
            if job is not before:
                words = f"Start to execute action {trigger.action} "
                self.recorder.tell(job, CONTROLLER, "Normal", "ExecuteAction", words)
        phase = lifecycle.phase_of(job)
        if phase in lifecycle.ACTIVE:
            await self._sync(job)
        else:
            await self._clear(job)
        await self._expire(job)

    def _pods(self, job: Object) -> list[Object]:
        return list(self._by_owner.get(uid(job), {}).values())

    def _group(self, job: Object) -> Object | None:
        return self.views.groups.store.get((namespace(job), group_name(job)))

    def _first_status(self, job: Object) -> Object:
        status = {"minAvailable": int(job["spec"].get("minAvailable") or 0)}
        return lifecycle.with_phase(status, "Pending")

    async def _write(self, job: Object, status: Object) -> Object:
        """Write a status if it differs; a 409 (somebody changed the job meanwhile) makes the key due again."""
        before = job.get("status") or {}
        stamp, was = now(), (before.get("state") or {}).get("phase")
        phase = status["state"]["phase"]
        if "lastTransitionTime" not in status["state"]:
            status = {**status, "state": {"phase": phase, "lastTransitionTime": stamp}}
            entry = {"status": phase, "lastTransitionTime": stamp}
            status["conditions"] = (
                [*(before.get("conditions") or []), entry] if was != phase else before.get("conditions") or []
            )
        if status == before:
            return job
        where = path(JOBS, "jobs", namespace(job), name(job), "status")
        answer = await self.client.replace(where, {**job, "status": status})
        self.views.jobs.remember(answer)
        return answer

    # --- commands and policies

    def _commands(self, key: Key) -> list[Object]:
        found = [
            command
            for command in self.views.commands.store.values()
            if namespace(command) == key[0]
            and (command.get("target") or {}).get("kind") == "Job"
            and command["target"].get("name") == key[1]
        ]
        return sorted(
            found, key=lambda c: (c["metadata"].get("creationTimestamp", ""), int(c["metadata"]["resourceVersion"]))
        )

    async def _obey(self, job: Object, command: Object) -> Object:
        """Carry out a command, then delete it. One carried out just before a crash finds nothing left to do."""
        action = str(command.get("action", ""))
        words = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
        if command["target"].get("uid") in (None, "", uid(job)):
            self.recorder.tell(job, CONTROLLER, "Normal", "CommandIssued", words)
            self.recorder.tell(job, CONTROLLER, "Normal", "ExecuteAction", f"Start to execute action {action} ")
            job = await self._act(job, Trigger(action), self._pods(job))
        await self.client.delete(path(BUS, "commands", namespace(command), name(command)), uid=uid(command))
        self.views.commands.forget(command)
        return job

    async def _trigger(self, job: Object, mine: list[Object]) -> Trigger | None:
        missing = [called for called in lifecycle.missing_pods(job, mine) if await self._is_gone(job, called)]
        group = self._group(job)
        group_phase = ((group or {}).get("status") or {}).get("phase") or ""
        found = list(lifecycle.triggers(job, mine, missing, group_phase))
        now_due = [trigger for trigger in found if not trigger.delay]
        await self._delayed(job, [trigger for trigger in found if trigger.delay], mine)
        return now_due[0] if now_due else None

    async def _is_gone(self, job: Object, pod: str) -> bool:
        # The cache may be behind our own create; an eviction is only believed when the server says so too.
        try:
            found = await self.client.get(path(CORE, "pods", namespace(job), pod))
        except ApiError as error:
            if error.status == 404:
                return True
            raise
        self.views.pods.remember(found)
        return (controller_of(found) or {}).get("uid") != uid(job)

    async def _delayed(self, job: Object, found: Iterable[Trigger], mine: list[Object]) -> None:
        """Policies with a timeout: when it is over the pods are deleted and nothing is written, as with Volcano.

        There the delayed action works with an old copy of the job, so that its status never gets in.
        """
        own = {(uid(job), trigger.pod_uid, trigger.action): trigger for trigger in found}
        for key in [k for k in self._due if k[0] == uid(job) and k not in own]:
            del self._due[key]
        for key, trigger in own.items():
            due = self._due.get(key)
            if due is None:
                self._due[key] = time.monotonic() + trigger.delay
                words = f"Execute action {trigger.action} after {trigger.delay:g}s"
                self.recorder.tell(job, CONTROLLER, "Normal", "ExecuteAction", words)
                self.queue.add_after(key_of(job), trigger.delay + 0.05)
            elif due <= time.monotonic():
                del self._due[key]
                await self._delete_pods(lifecycle.targets(trigger, job, mine) or mine)

    async def _act(self, job: Object, trigger: Trigger, mine: list[Object]) -> Object:
        status = lifecycle.begun(job, trigger.action, mine)
        if status is None:
            return job
        # Marked first: whatever happens next, these pods are known as left over and are not mistaken for evicted ones.
        await self._each(self._mark, lifecycle.targets(trigger, job, mine))
        return await self._write(job, status)

    async def _mark(self, pod: Object) -> None:
        patch = {"metadata": {"uid": uid(pod), "annotations": {OUT_OF_SYNC: "true"}}}
        try:
            answer = await self.client.merge_patch(path(CORE, "pods", namespace(pod), name(pod)), patch)
        except ApiError as error:
            if error.status in (404, 409):
                return  # gone, or another pod of that name: nothing to mark
            raise
        self._see_pod(answer)

    def _see_pod(self, pod: Object) -> None:
        before = self.views.pods.store.get(key_of(pod))
        after = self.views.pods.remember(pod)
        if after is not None:
            self.pod_changed(before, after)

    # --- a job that runs or is to run

    async def _sync(self, job: Object) -> None:
        if job["spec"].get("queue") not in {key[1] for key in self.views.queues.store}:
            raise Retry(f'queue.scheduling.volcano.sh "{job["spec"].get("queue")}" not found')
        await self._prepare(job)
        group = self._group(job)
        phase = ((group or {}).get("status") or {}).get("phase") or "Pending"
        if group is not None:
            self._tell_why_waiting(job, group)
        mine = self._pods(job)
        if phase != "Pending":
            await self._delete_pods(lifecycle.doomed(job, mine))
            await self._create_pods(job, mine)
            mine = self._pods(job)
        status = lifecycle.counted(job, mine)
        wanted = plugins.controlled(job)
        if wanted:
            status["controlledResources"] = wanted
        await self._write(job, status)

    async def _prepare(self, job: Object) -> None:
        """Plugins' objects, claims and PodGroup. Raises Retry (with an event) if the job cannot go on now."""
        try:
            if (job.get("status") or {}).get("controlledResources") != (plugins.controlled(job) or None):
                await self.children.make(job)
            elif sum(map(replicas, tasks(job))) != len(self._pods(job)):
                await self.children.renew_hosts(job)
            if lifecycle.phase_of(job) == "Pending":
                await self.children.claims(job)
        except PluginError as error:
            words = f"Execute plugin when job add failed, err: {error}"
            self.recorder.tell(job, CONTROLLER, "Warning", "PluginError", words)
            raise Retry(str(error)) from error
        except ClaimError as error:
            self.recorder.tell(job, CONTROLLER, "Warning", "PVCError", f"Failed to create PVC, err: {error}")
            raise Retry(str(error)) from error
        await self._keep_group(job)

    async def _keep_group(self, job: Object) -> None:
        values = {key[1]: int(item.get("value", 0)) for key, item in self.views.priorities.store.items()}
        group, where = self._group(job), path(SCHEDULING, "podgroups", namespace(job))
        if group is None:
            try:
                answer = await self.client.create(where, pods.group(job, values))
            except ApiError as error:
                if error.status != 409:
                    raise
                answer = await self.client.get(f"{where}/{group_name(job)}")
            self.views.groups.remember(answer)
            return
        wanted = pods.group_spec(job, values)
        spec = group.get("spec") or {}
        if any(
            spec.get(k) != wanted.get(k) for k in ("minMember", "minTaskMember", "minResources", "priorityClassName")
        ):
            change = {"priorityClassName": None, "minMember": None, **wanted}
            self.views.groups.remember(await self.client.merge_patch(f"{where}/{name(group)}", {"spec": change}))

    def _tell_why_waiting(self, job: Object, group: Object) -> None:
        for condition in (group.get("status") or {}).get("conditions") or []:
            if condition.get("type") == "Unschedulable":
                words = f"PodGroup {namespace(job)}:{name(job)} unschedulable, reason: {condition.get('message', '')}"
                self.recorder.tell_once(job, CONTROLLER, "Warning", "PodGroupPending", words)

    async def _create_pods(self, job: Object, mine: list[Object]) -> None:
        there, wanted = {name(pod) for pod in mine}, []
        for task in tasks(job):
            if not lifecycle.ready_to_start(job, task, mine):
                continue
            new = (pods.build(job, task, index) for index in range(replicas(task)))
            wanted += [pod for pod in new if name(pod) not in there]
        if not wanted:
            return
        failures: list[str] = []

        async def create(pod: Object) -> None:
            try:
                self._see_pod(await self.client.create(path(CORE, "pods", namespace(pod)), pod))
            except ApiError as error:
                if error.status == 409:
                    raise Retry(f"a pod {name(pod)} is still there") from error
                failures.append(_dump(name(pod), error))

        group = (namespace(job), group_name(job))
        self.making.add(group)
        try:
            await self._each(create, wanted)
        finally:
            self.making.discard(group)
            self.made()
        if failures:
            words = f"Error creating pods: [{' '.join(failures)}]"
            self.recorder.tell(job, CONTROLLER, "Warning", "FailedCreate", words)
            raise Retry(f"failed to create {len(failures)} pods of {len(wanted)}")

    # --- a job whose pods have to go

    async def _clear(self, job: Object) -> None:
        await self._delete_pods(lifecycle.doomed(job, self._pods(job)))
        await self._drop_group(job)
        if (job.get("status") or {}).get("controlledResources"):
            await self.children.remove(job)
        written = await self._write(job, lifecycle.settled(job, self._pods(job)))
        if lifecycle.phase_of(written) != lifecycle.phase_of(job):
            self.queue.add(key_of(job))

    async def _drop_group(self, job: Object) -> None:
        group = self._group(job)
        if group is not None:
            where = path(SCHEDULING, "podgroups", namespace(job), name(group))
            await self.client.delete(where, uid=uid(group))
            self.views.groups.forget(group)

    async def _delete_pods(self, doomed: list[Object]) -> None:
        async def delete(pod: Object) -> None:
            try:
                await self.client.delete(path(CORE, "pods", namespace(pod), name(pod)), uid=uid(pod))
            except ApiError as error:
                if error.status != 409:  # another pod of that name by now
                    raise

        await self._each(delete, [pod for pod in doomed if not deleting(pod)])

    async def _each(self, action: Any, items: list[Object]) -> None:
        for start in range(0, len(items), AT_ONCE):
            await asyncio.gather(*(action(item) for item in items[start : start + AT_ONCE]))

    async def _expire(self, job: Object) -> None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or lifecycle.phase_of(job) not in lifecycle.FINISHED:
            return
        left = ttl - (datetime.now(UTC) - moment(job["status"]["state"]["lastTransitionTime"])).total_seconds()
        if left > 0:
            self.queue.add_after(key_of(job), left + 0.1)
            return
        await self.client.delete(path(JOBS, "jobs", namespace(job), name(job)), uid=uid(job))

    async def _let_go(self, key: Key, job: Object | None) -> None:
        """A job is gone or going. Commands for a job that is not there are eaten; left-overs go with their owner."""
        if job is not None:
            return
        for command in self._commands(key):
            await self.client.delete(path(BUS, "commands", *key[:1], name(command)), uid=uid(command))
            self.views.commands.forget(command)


def _dump(pod: str, error: ApiError) -> str:
    """A refusal as Volcano prints it: the Go value of the server's Status."""
    message = error.message.replace("\\", "\\\\").replace('"', '\\"')
    meta = 'ListMeta:v1.ListMeta{SelfLink:"", ResourceVersion:"", Continue:"", RemainingItemCount:(*int64)(nil)}'
    return (
        f"failed to create pod {pod}, err: &errors.StatusError{{ErrStatus:v1.Status{{"
        f'TypeMeta:v1.TypeMeta{{Kind:"", APIVersion:""}}, {meta}, Status:"Failure", Message:"{message}", '
        f'Reason:"{error.reason}", Details:(*v1.StatusDetails)(0xc000000000), Code:{error.status}}}}}'
    )
