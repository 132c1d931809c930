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
    annotation,
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


BY_PARENT = "volcano.sh/closed-by-parent"
_SHUT = ("Closing", "Closed")


def state_of(queue: Object) -> str:
    return str((queue.get("status") or {}).get("state") or "")


def next_state(state: str, action: str, groups: int) -> str:
    """A queue's state after a command ("" for none) with so many PodGroups in it."""
    if action == "OpenQueue" or not state:
        return "Open"
    if action == "CloseQueue" or state == "Closing":
        return "Closing" if groups else "Closed"
    return state


def asked_by_parent(queue: Object, parent: Object | None) -> str:
    """A queue closes with its parent, and opens with it again if that was why; "" for nothing to do."""
    above, own = state_of(parent or {}), state_of(queue)
    if above in _SHUT and own == "Open":
        return "CloseQueue"
    return "OpenQueue" if above == "Open" and own in _SHUT and annotation(queue, BY_PARENT) == "true" else ""


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
        key = key_of(new or old or {})
        self.queue.add(key)
        if new is not None and state_of(new) != state_of(old or {}):
            self._wake_below(key[1])

    def _wake_below(self, parent: str) -> None:
        for key, other in self.queues.store.items():
            if other["spec"].get("parent") == parent:
                self.queue.add(key)

    def group_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(("", str((new or old or {})["spec"].get("queue") or "default")))

    def command_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and (new.get("target") or {}).get("kind") == "Queue":
            self.queue.add(("", new["target"]["name"]))

    async def reconcile(self, key: Key) -> None:
        queue = self.queues.store.get(key)
        for command in [c for c in self.commands.store.values() if _is_for(c, key[1])]:
            if queue is not None:
                queue = await self._obey(queue, str(command.get("action", "")))
            await self.client.delete(path(BUS, "commands", namespace(command), name(command)), uid=uid(command))
            self.commands.forget(command)
        if queue is None or deleting(queue):
            return
        queue = await self._move(queue, "")
        if action := asked_by_parent(queue, self._parent(queue)):
            queue = await self._mark(queue, "true" if action == "CloseQueue" else "false")
            queue = await self._move(queue, action)
        if name(queue) != "root" and not queue["spec"].get("parent"):
            where = path(SCHEDULING, "queues", "", name(queue))
            self.queues.remember(await self.client.merge_patch(where, {"spec": {"parent": "root"}}))

    def _parent(self, queue: Object) -> Object | None:
        return self.queues.store.get(("", queue["spec"].get("parent") or ""))

    async def _obey(self, queue: Object, action: str) -> Object:
        parent = self._parent(queue)
        if action == "OpenQueue" and parent is not None and state_of(parent) in _SHUT:
            words = f"its parent queue {name(parent)} is closing or closed. Open the parent queue first."
            words = f"Failed to open queue {name(queue)} because {words}"
            self.recorder.tell(queue, CONTROLLER, "Warning", "OpenQueue", words)
            return queue
        if action == "OpenQueue" and state_of(queue) in _SHUT and annotation(queue, BY_PARENT) == "true":
            queue = await self._mark(queue, "false")
        return await self._move(queue, action)

    async def _mark(self, queue: Object, by_parent: str) -> Object:
        where = path(SCHEDULING, "queues", "", name(queue))
        answer = await self.client.merge_patch(where, {"metadata": {"annotations": {BY_PARENT: by_parent}}})
        self.queues.remember(answer)
        return answer

    async def _move(self, queue: Object, action: str) -> Object:
        inside = sum((g["spec"].get("queue") or "default") == name(queue) for g in self.groups.store.values())
        state = next_state(state_of(queue), action, inside)
        if state == state_of(queue) or (name(queue) == "root" and action == "CloseQueue"):
            return queue
        where = path(SCHEDULING, "queues", "", name(queue), "status")
        answer = await self.client.merge_patch(where, {"status": {"state": state}})
        self.queues.remember(answer)
        self._wake_below(name(queue))  # the watch will only tell what is known by now
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
