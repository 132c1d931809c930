"""Custom kinds: served from when their definition is stored until the last object of theirs has gone."""

from __future__ import annotations

from collections.abc import Iterable

from apps.localcluster.apiserver.definitions import CLEANUP, DEFINITIONS, establish
from apps.localcluster.apiserver.store import Event, Key
from apps.localcluster.controllers.base import Controller


class Definitions(Controller):
    resource = DEFINITIONS

    def stirred(self, event: Event) -> Iterable[Key]:
        """A definition that is going waits for the objects of its kind."""
        if event.record.resource == DEFINITIONS:
            return [event.record.key]
        return [("", event.record.resource)] if event.type == "DELETED" and "." in event.record.resource else ()

    async def look(self, key: Key) -> float | None:
        record = self.store.get(DEFINITIONS, key)
        if record is None:
            return None
        definition = record.load()
        if not record.deleting:
            if establish(definition, self.cluster.registry.clash(definition)):
                self.store.put(DEFINITIONS, key, definition, record.version)
            self.cluster.registry.install(definition)
            return None
        resource = key[1]
        for each in self.store.select(resource) if self.cluster.registry.by_resource(resource) else ():
            if not each.deleting:
                self.cluster.delete(each)
        if self.store.select(resource):
            return None
        finalizers = definition["metadata"].get("finalizers") or []
        left = [each for each in finalizers if each != CLEANUP]
        if left:
            if left != finalizers:
                definition["metadata"]["finalizers"] = left
                self.store.put(DEFINITIONS, key, definition, record.version)
            return None
        self.cluster.registry.uninstall(definition)
        self.store.remove(DEFINITIONS, key, record.version)
        # Its watches end once they have told the last deletions.
        self.store.ring(resource)
        return None
