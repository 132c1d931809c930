"""The queue controller: opens new queues, closes and opens them on command; and the PodGroups of bare pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.client import ApiError, Key, KubeClient, key_of
from apps.localcluster.volcano import pods
from apps.localcluster.volcano.cache import Cache
from apps.localcluster.volcano.events import Recorder
from apps.localcluster.volcano.objects import (
    BUS,
    CONTROLLER,
    CORE,
    GROUP_NAME,
    SCHEDULING,
    deleting,
    name,
    namespace,
    path,
    uid,
)
from apps.localcluster.volcano.work import WorkQueue

Object = dict[str, Any]

BUILT_IN: tuple[Object, ...] = (
    {"name": "root", "spec": {"weight": 1, "reclaimable": False, "guarantee": {}, "dequeueStrategy": "traverse"}},
    {
        "name": "default",
        "spec": {
            "weight": 1,
            "reclaimable": True,
            "guarantee": {},
            "dequeueStrategy": "traverse",
            "parent": "root",
        },
    },
)


def state_of(queue: Object) -> str:
    return str((queue.get("status") or {}).get("state") or "")


def next_state(state: str, action: str, groups: int) -> str:
    """A queue's state after a command ("" for none) with so many PodGroups in it."""
    if action == "OpenQueue" or not state:
        return "Open"
    if action == "CloseQueue" or state == "Closing":
        return "Closing" if groups else "Closed"
    return state


@dataclass
class QueueController:
    client: KubeClient
    queues: Cache
    groups: Cache
    commands: Cache
    recorder: Recorder
    queue: WorkQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.reconcile, workers=2)

    async def found(self) -> None:
        """Make the queues that are always there."""
        for built_in in BUILT_IN:
            if ("", built_in["name"]) not in self.queues.store:
                metadata = {"name": built_in["name"]}
                body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata}
                try:
                    await self.client.create(path(SCHEDULING, "queues"), {**body, "spec": built_in["spec"]})
                except ApiError as error:
                    if error.status != 409:
                        raise

    def queue_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(key_of(new or old or {}))

    def group_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(("", str((new or old or {})["spec"].get("queue") or "default")))

    def command_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and (new.get("target") or {}).get("kind") == "Queue":
            self.queue.add(("", new["target"]["name"]))

    async def reconcile(self, key: Key) -> None:
        queue = self.queues.store.get(key)
        for command in [c for c in self.commands.store.values() if _is_for(c, key[1])]:
            if queue is not None:
                queue = await self._move(queue, str(command.get("action", "")))
            await self.client.delete(path(BUS, "commands", namespace(command), name(command)), uid=uid(command))
            self.commands.forget(command)
        if queue is None or deleting(queue):
            return
        queue = await self._move(queue, "")
        if name(queue) != "root" and not queue["spec"].get("parent"):
            where = path(SCHEDULING, "queues", "", name(queue))
            self.queues.remember(await self.client.merge_patch(where, {"spec": {"parent": "root"}}))

    async def _move(self, queue: Object, action: str) -> Object:
        inside = sum((g["spec"].get("queue") or "default") == name(queue) for g in self.groups.store.values())
        state = next_state(state_of(queue), action, inside)
        if state == state_of(queue) or (name(queue) == "root" and action == "CloseQueue"):
            return queue
        where = path(SCHEDULING, "queues", "", name(queue), "status")
        answer = await self.client.merge_patch(where, {"status": {"state": state}})
        self.queues.remember(answer)
        if action == "CloseQueue":
            self.recorder.tell(queue, CONTROLLER, "Normal", "CloseQueue", "Close queue succeed")
        return answer


def _is_for(command: Object, queue: str) -> bool:
    target = command.get("target") or {}
    return target.get("kind") == "Queue" and target.get("name") == queue


@dataclass
class GroupController:
    """Gives pods that come to Volcano without a PodGroup one of their own."""

    client: KubeClient
    pods: Cache
    groups: Cache
    queue: WorkQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.reconcile, workers=2)

    def pod_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and pods.is_bare(new) and not deleting(new):
            self.queue.add(key_of(new))

    async def reconcile(self, key: Key) -> None:
        pod = self.pods.store.get(key)
        if pod is None or deleting(pod) or not pods.is_bare(pod):
            return
        group = pods.bare_group(pod)
        if (namespace(group), name(group)) not in self.groups.store:
            try:
                await self.client.create(path(SCHEDULING, "podgroups", namespace(group)), group)
            except ApiError as error:
                if error.status != 409:
                    raise
        patch = {"metadata": {"uid": uid(pod), "annotations": {GROUP_NAME: name(group)}}}
        self.pods.remember(await self.client.merge_patch(path(CORE, "pods", namespace(pod), name(pod)), patch))
