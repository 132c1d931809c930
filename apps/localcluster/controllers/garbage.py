"""Garbage collection by owner references: Background, Foreground and Orphan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.localcluster.apiserver.store import Event, Key, Record
from apps.localcluster.controllers.base import Cluster, Controller

Object = dict[str, Any]
Place = tuple[str, Key]
"""Resource and key."""

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector(Controller):
    """Follows who owns whom by uid."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._dependents: dict[str, set[Place]] = {}

    def first(self) -> Iterable[Place]:
        records = [record for resource in self.store.resources() for record in self.store.select(resource)]
        self._dependents.clear()
        for record in records:
            self._note(record)
        return [(record.resource, record.key) for record in records if record.owners or record.deleting]

    def stirred(self, event: Event) -> Iterable[Place]:
        record, before = event.record, event.before
        place = (record.resource, record.key)
        for uid in before.owners if before else ():
            self._dependents.get(uid, set()).discard(place)
            if not self._dependents.get(uid, True):
                del self._dependents[uid]
        if event.type != "DELETED":
            self._note(record)
            return [place] if record.owners or record.deleting else ()
        # An owner that waits in the foreground for this one may go now.
        owners = (self._find(each, record.key[0]) for each in _references(record))
        waiting = [(each.resource, each.key) for each in owners if isinstance(each, Record) and each.deleting]
        return [*self._dependents.get(record.uid, ()), *waiting]

    def _note(self, record: Record) -> None:
        for uid in record.owners:
            self._dependents.setdefault(uid, set()).add((record.resource, record.key))

    async def look(self, key: Place) -> None:
        record = self.store.get(*key)
        if record is not None and record.owners and not record.deleting:
            self._dependent(record)
            record = self.store.get(*key)
        if record is not None and record.deleting:
            self._owner(record)

    def _of(self, uid: str) -> list[Record]:
        found = (self.store.get(*place) for place in sorted(self._dependents.get(uid, ())))
        return [record for record in found if record is not None and uid in record.owners]

    def _dependent(self, record: Record) -> None:
        """Does anybody still hold it?"""
        held, lost, waiting = [], [], []
        for reference in _references(record):
            owner = self._find(reference, record.key[0])
            if owner is None:
                lost.append(reference)
            elif owner == "unknown" or not _in_foreground(owner):
                held.append(reference)
            else:
                waiting.append(reference)
        if held and (lost or waiting):
            item = record.load()
            item["metadata"]["ownerReferences"] = held
            self.store.put(record.resource, record.key, item, record.version)
        elif not held and self.cluster.registry.by_resource(record.resource):
            self.cluster.delete(record, "Foreground" if waiting and self._of(record.uid) else "Background")

    def _find(self, reference: Object, namespace: str) -> Record | str | None:
        """The owner of a reference; "unknown" for a kind that is not offered here, None when it is gone."""
        kind = self.cluster.registry.by_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if kind is None:
            return "unknown"
        record = self.store.get(kind.resource, (namespace if kind.namespaced else "", reference.get("name", "")))
        return record if record is not None and record.uid == reference.get("uid") else None

    def _owner(self, record: Record) -> None:
        """One that is being deleted lets its dependents go, or waits for them."""
        finalizers = record.load()["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for each in self._of(record.uid):
                item = each.load()
                metadata = item["metadata"]
                metadata["ownerReferences"] = [ref for ref in _references(each) if ref["uid"] != record.uid]
                if not metadata["ownerReferences"]:
                    del metadata["ownerReferences"]
                self.store.put(each.resource, each.key, item, each.version)
            self._release(record, ORPHAN)
        elif FOREGROUND in finalizers:
            for each in self._of(record.uid):
                if not each.deleting:
                    self._dependent(each)
            if not any(_blocks(each, record.uid) for each in self._of(record.uid)):
                self._release(record, FOREGROUND)

    def _release(self, record: Record, finalizer: str) -> None:
        item = record.load()
        metadata = item["metadata"]
        metadata["finalizers"] = [each for each in metadata.get("finalizers") or () if each != finalizer]
        if metadata["finalizers"] or metadata.get("deletionGracePeriodSeconds"):
            self.store.put(record.resource, record.key, item, record.version)
        else:
            self.store.remove(record.resource, record.key, record.version)


def _references(record: Record) -> list[Object]:
    found: list[Object] = record.load()["metadata"].get("ownerReferences") or [] if record.owners else []
    return found


def _in_foreground(owner: Record | str) -> bool:
    if isinstance(owner, str) or not owner.deleting:
        return False
    return FOREGROUND in (owner.load()["metadata"].get("finalizers") or ())


def _blocks(dependent: Record, uid: str) -> bool:
    return any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in _references(dependent))
