"""Deployments: one ReplicaSet a template, and the way from one to the next."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Event, Key
from apps.localcluster.controllers.base import Controller, pods_of
from apps.localcluster.controllers.hashing import template_hash
from apps.localcluster.controllers.pods import ENDED, age, condition
from apps.localcluster.controllers.replicasets import REPLICA_SETS
from apps.localcluster.controllers.standing import DESIRED, DONE, HASH, HISTORY, LATE, MOST, REVISION, Part, Standing

Object = dict[str, Any]

DEPLOYMENTS = "deployments.apps"
COMPONENT = "deployment-controller"
NOT_COPIED = (REVISION, HISTORY, DESIRED, MOST, "kubectl.kubernetes.io/last-applied-configuration")


class Deployments(Controller):
    resource = DEPLOYMENTS

    def stirred(self, event: Event) -> Iterable[Key]:
        """A ReplicaSet's owner, those that could adopt one without; and with a pod, its ReplicaSet's owner."""
        record = event.record
        if record.resource == DEPLOYMENTS:
            return [record.key]
        if record.resource == REPLICA_SETS:
            owners = {uid for each in (event.before, record) if each for uid in each.owners}
        elif record.resource == "pods" and event.type == "DELETED":
            sets = {uid for _, uid in pods_of(event)}
            found = self.store.select(REPLICA_SETS, record.key[0])
            owners = {uid for each in found if each.uid in sets for uid in each.owners}
        else:
            return ()
        return [each.key for each in self.store.select(DEPLOYMENTS, record.key[0]) if each.uid in owners or not owners]

    async def look(self, key: Key) -> float | None:
        record = self.store.get(DEPLOYMENTS, key)
        if record is None:
            return None
        selector = record.load()["spec"]["selector"]
        sets = await self.cluster.claim(REPLICA_SETS, record, lambda labels: matches_labels(selector, labels))
        return await Rollout(self.cluster, record, sets).step()


class Rollout(Standing):
    """Steps on the way to what a deployment wants."""

    async def step(self) -> float | None:
        """One step on the way. Gives the seconds after which the lack of progress is to be told."""
        rolling_out = False
        if not self.record.deleting:
            self.note_pause()
            await self._follow_new()
            if self.spec.get("paused") or any(
                part.notes.get(DESIRED, str(self.replicas)) != str(self.replicas) for part in self.active
            ):
                await self._resize()
            else:
                rolling_out = True
                await (self._recreate() if self.spec["strategy"]["type"] == "Recreate" else self._roll())
            if self.spec.get("paused") or self.is_complete(self.was["status"]):
                self._forget()
        self.count_up()
        if rolling_out:
            self.judge_progress()
        if self.item != self.was:
            await self.cluster.update(self.record, self.item, "status")
        progress = condition(self.item, "Progressing")
        if not rolling_out or not progress or progress["reason"] in (DONE, LATE):
            return None
        return max(1.0, float(self.spec["progressDeadlineSeconds"]) - age(progress["lastUpdateTime"])) + 1

    # -- the ReplicaSet of the present template

    async def _follow_new(self) -> None:
        """Carry annotations and the revision over to the ReplicaSet that is there already."""
        if self.new is None:
            return
        before = deepcopy(self.new.item)
        self._annotate(self.new)
        self.new.item["spec"].pop("minReadySeconds", None)
        if seconds := self.spec.get("minReadySeconds"):
            self.new.item["spec"]["minReadySeconds"] = seconds
        if self.new.item != before:
            await self._write(self.new)
        self._set_revision(self.new)
        if not condition(self.item, "Progressing"):
            self.progress("True", "FoundNewReplicaSet", f'Found new replica set "{self.new.name}"')

    def _annotate(self, part: Part) -> None:
        notes, revision = self.item["metadata"].get("annotations") or {}, str(self._next_revision())
        part.notes.update({name: value for name, value in notes.items() if name not in NOT_COPIED})
        if part.revision < int(revision):
            if REVISION in part.notes:
                part.notes[HISTORY] = ",".join(filter(None, [part.notes.get(HISTORY, ""), part.notes[REVISION]]))
            part.notes[REVISION] = revision

    def _next_revision(self) -> int:
        return max((part.revision for part in self.old), default=0) + 1

    def _set_revision(self, part: Part) -> None:
        self.item["metadata"].setdefault("annotations", {})[REVISION] = part.notes[REVISION]

    async def _make_new(self) -> None:
        """Make the ReplicaSet of the present template. Raises StatusError."""
        digest = template_hash(self.spec["template"], self.status.get("collisionCount"))
        template, selector = deepcopy(self.spec["template"]), deepcopy(self.spec["selector"])
        template["metadata"]["labels"] = (template["metadata"].get("labels") or {}) | {HASH: digest}
        selector["matchLabels"] = (selector.get("matchLabels") or {}) | {HASH: digest}
        name = f"{self.record.key[1]}-{digest}"
        metadata = {"name": name, "namespace": self.record.key[0], "labels": template["metadata"]["labels"]}
        metadata |= {"ownerReferences": [self.cluster.reference(self.record)]}
        notes = self.item["metadata"].get("annotations") or {}
        metadata["annotations"] = {name: value for name, value in notes.items() if name not in NOT_COPIED}
        metadata["annotations"] |= {REVISION: str(self._next_revision()), **self._sizes()}
        room = self.replicas + self.surge - sum(part.replicas for part in self.parts)
        replicas = min(self.replicas, max(0, room)) if self.spec["strategy"]["type"] != "Recreate" else self.replicas
        spec = {"replicas": replicas, "selector": selector, "template": template}
        spec |= {"minReadySeconds": self.spec["minReadySeconds"]} if self.spec.get("minReadySeconds") else {}
        try:
            await self.cluster.create(REPLICA_SETS, {"metadata": metadata, "spec": spec})
        except StatusError as error:
            if error.code == 409:
                self.status["collisionCount"] = self.status.get("collisionCount", 0) + 1
            else:
                told = f'Failed to create new replica set "{name}": {error.message}'
                self.progress("False", "ReplicaSetCreateError", told)
                await self.cluster.tell(self.record, "Warning", "ReplicaSetCreateError", told, COMPONENT)
            await self.cluster.update(self.record, self.item, "status")
            raise
        made = self.cluster.store.get(REPLICA_SETS, (self.record.key[0], name))
        assert made is not None
        self.new = Part(made)
        self.parts.append(self.new)
        self._set_revision(self.new)
        if replicas:
            await self._tell_scaled(name, 0, replicas)
        self.progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')

    # -- from the old ones to the new one

    async def _roll(self) -> None:
        """Scale the new one up as far as the surge lets it; else the old ones down as far as availability lets them."""
        if self.new is None:
            await self._make_new()
            return
        room = self.replicas + self.surge - sum(part.replicas for part in self.parts)
        wanted = self.replicas
        if self.new.replicas < self.replicas:
            wanted = self.new.replicas + max(0, min(room, self.replicas - self.new.replicas))
        if await self._scale(self.new, wanted):
            return
        least = self.replicas - self.unavailable
        unready = self.new.replicas - self.new.count("availableReplicas")
        most = sum(part.replicas for part in self.parts) - least - unready
        for part in self.old:
            # Those that do not serve go first: they are no loss.
            number = min(most, part.replicas - part.count("availableReplicas"))
            if number > 0 and await self._scale(part, part.replicas - number):
                most -= number
        if sum(part.replicas for part in self.parts) - least - unready <= 0:
            return
        # A ReplicaSet that was made smaller a moment ago still counts the pods that it is about to delete.
        spare = sum(min(part.replicas, part.count("availableReplicas")) for part in self.parts) - least
        for part in self.old:
            number = min(spare, part.replicas)
            if number > 0 and await self._scale(part, part.replicas - number):
                spare -= number

    async def _recreate(self) -> None:
        """All the old pods end before the first new one begins."""
        if any([await self._scale(part, 0) for part in self.old]):
            return
        pods = [pod for part in self.old for pod in self.cluster.owned("pods", part.record)]
        if any(part.count("replicas") for part in self.old) or any(
            pod.fields["status.phase"] not in ENDED for pod in pods
        ):
            return
        if self.new is None:
            await self._make_new()
        else:
            await self._scale(self.new, self.replicas)

    async def _resize(self) -> None:
        """Follow a change of the number: in the midst of a rollout every ReplicaSet has its share of it."""
        active = self.active
        if len(active) <= 1:
            latest = active or ([self.new] if self.new else self.parts[-1:])
            for part in latest:
                await self._scale(part, self.replicas)
            return
        if self.new and self.new.replicas == self.replicas == self.new.count("availableReplicas") == int(
            self.new.notes.get(DESIRED, "-1")
        ):
            for part in self.old:
                await self._scale(part, 0)
            return
        if self.spec["strategy"]["type"] == "Recreate":
            return
        most = self.replicas + self.surge if self.replicas else 0
        more = most - sum(part.replicas for part in active)
        active.sort(key=lambda part: (part.made, part.name), reverse=more > 0)
        active.sort(key=lambda part: -part.replicas)
        sizes, added = [], 0
        for part in active:
            added_here = self._portion(part, more, more - added) if more else 0
            sizes.append(part.replicas + added_here)
            added += added_here
        sizes[0] = max(0, sizes[0] + more - added)
        for part, size in zip(active, sizes, strict=True):
            await self._scale(part, size, anyway=True)

    def _portion(self, part: Part, more: int, allowed: int) -> int:
        if not self.replicas:
            fraction = -part.replicas
        else:
            before = int(part.notes.get(MOST, "0")) or self.status.get("replicas", 0)
            exact = part.replicas * (self.replicas + self.surge) / before if before else part.replicas
            fraction = math.floor(exact + 0.5) - part.replicas
        return min(fraction, allowed) if more > 0 else max(fraction, allowed)

    def _sizes(self) -> dict[str, str]:
        return {DESIRED: str(self.replicas), MOST: str(self.replicas + self.surge)}

    async def _scale(self, part: Part, replicas: int, *, anyway: bool = False) -> bool:
        """Whether the number has changed. `anyway`: what a ReplicaSet knows of its deployment's size comes along."""
        before = part.replicas
        if before == replicas and not (anyway and not self._sizes().items() <= part.notes.items()):
            return False
        part.item["spec"]["replicas"] = replicas
        part.notes.update(self._sizes())
        await self._write(part)
        if before != replicas:
            await self._tell_scaled(part.name, before, replicas)
        return before != replicas

    async def _write(self, part: Part) -> None:
        await self.cluster.update(part.record, part.item)
        part.record = self.cluster.store.get(REPLICA_SETS, part.record.key) or part.record
        part.item = part.record.load()

    async def _tell_scaled(self, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        told = f"Scaled {way} replica set {name} from {before} to {after}"
        await self.cluster.tell(self.record, "Normal", "ScalingReplicaSet", told, COMPONENT)

    def _forget(self) -> None:
        """Delete the oldest of the ReplicaSets that are kept for going back."""
        kept = [part for part in self.old if not part.record.deleting]
        surplus = len(kept) - self.spec["revisionHistoryLimit"]
        for part in sorted(kept, key=lambda part: part.revision)[: max(0, surplus)]:
            seen = part.count("observedGeneration") >= part.item["metadata"]["generation"]
            if seen and not part.replicas and not part.count("replicas"):
                self.cluster.delete(part.record)
