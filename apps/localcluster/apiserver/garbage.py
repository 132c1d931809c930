"""Garbage collection by owner references: Background, Foreground and Orphan."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver.deleting import Deleter, Options
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.store import Event, Key, Record, Store

Object = dict[str, Any]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector:
    """Follows who owns whom by uid."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self.store, self.registry, self.deleter = store, registry, deleter
        self._dependents: dict[str, set[tuple[str, Key]]] = {}

    def start(self) -> None:
        """Look at everything there is."""
        records = [record for resource in self.store.resources() for record in self.store.select(resource)]
        for record in records:
            self._note(record)
        for record in records:
            if record.owners or record.deleting:
                current = self.store.get(record.resource, record.key)
                if current is not None:
                    self._look(current)

    def take(self, event: Event) -> None:
        """Act on one change. Raises Moved when an object is not what it was; its own event follows."""
        record, before = event.record, event.before
        for uid in before.owners if before else ():
            self._forget(uid, record)
        if event.type == "DELETED":
            for each in self._of(record.uid):
                self._dependent(each)
            # An owner that waits in the foreground for this one may go now.
            for uid in record.owners:
                self._owner_of(uid, record)
            return
        self._note(record)
        current = self.store.get(record.resource, record.key)
        if current is not None and current.version == record.version and (record.owners or record.deleting):
            self._look(current)

    def _look(self, record: Record) -> None:
        if record.owners and not record.deleting:
            self._dependent(record)
        current = self.store.get(record.resource, record.key)
        if current is not None and current.deleting:
            self._owner(current)

    def _note(self, record: Record) -> None:
        for uid in record.owners:
            self._dependents.setdefault(uid, set()).add((record.resource, record.key))

    def _forget(self, uid: str, record: Record) -> None:
        known = self._dependents.get(uid, set())
        known.discard((record.resource, record.key))
        if not known:
            self._dependents.pop(uid, None)

    def _of(self, uid: str) -> list[Record]:
        places = sorted(self._dependents.get(uid, ()))
        found = (self.store.get(resource, key) for resource, key in places)
        return [record for record in found if record is not None and uid in record.owners]

    # -- a dependent: does anybody still hold it?

    def _dependent(self, record: Record) -> None:
        item = record.load()
        held, lost, waiting = [], [], []
        for reference in item["metadata"].get("ownerReferences") or ():
            owner = self._find(reference, record.key[0])
            if owner is None:
                lost.append(reference)
            elif owner == "unknown" or not self._in_foreground(owner):
                held.append(reference)
            else:
                waiting.append(reference)
        if held and (lost or waiting):
            item["metadata"]["ownerReferences"] = held
            self.store.put(record.resource, record.key, item, record.version)
        elif not held and not record.deleting and (kind := self.registry.by_resource(record.resource)):
            policy = FOREGROUND if waiting and self._of(record.uid) else "Background"
            self.deleter.remove(kind, record, Options(uid=record.uid, policy=policy.replace(FOREGROUND, "Foreground")))

    def _find(self, reference: Object, namespace: str) -> Record | str | None:
        """The owner of a reference; "unknown" for a kind that is not offered here, None when it is gone."""
        kind = self.registry.by_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if kind is None:
            return "unknown"
        record = self.store.get(kind.resource, (namespace if kind.namespaced else "", reference.get("name", "")))
        return record if record is not None and record.uid == reference.get("uid") else None

    def _in_foreground(self, owner: Record | str) -> bool:
        if isinstance(owner, str) or not owner.deleting:
            return False
        return FOREGROUND in (owner.load()["metadata"].get("finalizers") or ())

    # -- an owner that is being deleted and waits for its dependents

    def _owner_of(self, uid: str, dependent: Record) -> None:
        for reference in dependent.load()["metadata"].get("ownerReferences") or ():
            if reference.get("uid") == uid:
                owner = self._find(reference, dependent.key[0])
                if isinstance(owner, Record) and owner.deleting:
                    self._owner(owner)

    def _owner(self, record: Record) -> None:
        finalizers = record.load()["metadata"].get("finalizers") or []
        kind = self.registry.by_resource(record.resource)
        if kind is None:
            return
        if ORPHAN in finalizers:
            for each in self._of(record.uid):
                item = each.load()
                metadata = item["metadata"]
                left = [ref for ref in metadata["ownerReferences"] if ref.get("uid") != record.uid]
                metadata["ownerReferences"] = left
                if not left:
                    del metadata["ownerReferences"]
                self.store.put(each.resource, each.key, item, each.version)
            self._release(kind, record, ORPHAN)
        elif FOREGROUND in finalizers:
            for each in self._of(record.uid):
                if not each.deleting:
                    self._dependent(each)
            if not any(self._blocks(each, record.uid) for each in self._of(record.uid)):
                self._release(kind, record, FOREGROUND)

    def _blocks(self, dependent: Record, uid: str) -> bool:
        references = dependent.load()["metadata"].get("ownerReferences") or ()
        return any(ref.get("uid") == uid and ref.get("blockOwnerDeletion") for ref in references)

    def _release(self, kind: Kind, record: Record, finalizer: str) -> None:
        item = record.load()
        metadata = item["metadata"]
        metadata["finalizers"] = [each for each in metadata.get("finalizers") or () if each != finalizer]
        if metadata["finalizers"] or metadata.get("deletionGracePeriodSeconds"):
            self.store.put(kind.resource, record.key, item, record.version)
        else:
            self.store.remove(kind.resource, record.key, record.version)
