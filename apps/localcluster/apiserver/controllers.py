"""What a cluster does on its own: fills and empties namespaces, collects orphans, installs custom kinds.

One loop over the store's history; every step looks at the present state, so a step that is done twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.admission import DEFINITIONS
from apps.localcluster.apiserver.deleting import Deleter, Options
from apps.localcluster.apiserver.garbage import GarbageCollector
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.plain import CLEANUP, establish
from apps.localcluster.apiserver.quota import QUOTAS, Quotas
from apps.localcluster.apiserver.store import Event, Moved, Record, Store

log = logging.getLogger(__name__)

Object = dict[str, Any]

FIRST_SECONDS = 0.1  # how long a deleted namespace is left alone
AGAIN_SECONDS = 1.0  # how soon one that still has content is looked at again


class Controllers:
    """The loop."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter, authority: str) -> None:
        self.store, self.registry, self.deleter, self.authority = store, registry, deleter, authority
        self.garbage = GarbageCollector(store, registry, deleter)
        self.quotas = Quotas(store)
        self._going: dict[str, float] = {}
        """Namespaces that are going, and when each is looked at next."""
        self._leaving: set[str] = set()
        self._counting: set[str] = set()
        """Namespaces whose quotas are to be counted anew."""

    async def run(self) -> None:
        """Never returns."""
        bell = self.store.listen("")
        seen = self.store.version
        self.garbage.start()
        for record in self.store.select("namespaces"):
            self._namespace(record)
        for record in self.store.select(DEFINITIONS):
            self._definition(record)
        self._counting = {record.key[0] for record in self.store.select(QUOTAS)}
        while True:
            bell.clear()
            # What this loop writes itself is read in the next turn.
            events, seen = self.store.events_after(seen), self.store.version
            for event in events:
                self._take(event)
                self._counting.add(event.record.key[0])
            self._count()
            now = asyncio.get_running_loop().time()
            for name in [name for name, due in self._going.items() if due <= now]:
                self._going[name] = now + AGAIN_SECONDS
                self._empty(name)
            for name in sorted(self._leaving):
                self._look_again(name)
            if bell.is_set():
                await asyncio.sleep(0)
                continue
            try:
                due = [*self._going.values(), *([now + AGAIN_SECONDS] if self._leaving else [])]
                async with asyncio.timeout_at(min(due, default=None)):
                    await bell.wait()
            except TimeoutError:
                pass

    def _take(self, event: Event) -> None:
        record = event.record
        try:
            if record.resource == "namespaces" and event.type != "DELETED":
                self._namespace(record)
            elif record.resource == DEFINITIONS and event.type != "DELETED":
                self._definition(record)
            elif record.resource in ("serviceaccounts", "configmaps") and event.type == "DELETED":
                self._refill(record)
            self.garbage.take(event)
        except Moved:
            log.debug("%s %s moved meanwhile; its next event follows", record.resource, record.key)

    def _count(self) -> None:
        """Write what is used into the status of quotas."""
        counting, self._counting = self._counting - {""}, set()
        for record in (each for namespace in counting for each in self.store.select(QUOTAS, namespace)):
            item = record.load()
            status = {"hard": item["spec"].get("hard") or {}}
            if used := self.quotas.used(item):
                status["used"] = used
            if item.get("status") != status:
                item["status"] = status
                self.store.put(record.resource, record.key, item, record.version)

    # -- namespaces

    def _namespace(self, record: Record) -> None:
        name = record.key[1]
        if record.deleting:
            self._going.setdefault(name, asyncio.get_running_loop().time() + FIRST_SECONDS)
        else:
            self._fill(name)

    def _refill(self, record: Record) -> None:
        namespace = self.store.get("namespaces", ("", record.key[0]))
        if namespace is not None and not namespace.deleting:
            self._fill(record.key[0])

    def _fill(self, namespace: str) -> None:
        """Every namespace has an account `default` and the certificate of the cluster's authority."""
        wanted: tuple[tuple[str, Object], ...] = (
            ("serviceaccounts", {"metadata": {"name": "default"}}),
            (
                "configmaps",
                {
                    "metadata": {
                        "name": "kube-root-ca.crt",
                        "annotations": {
                            "kubernetes.io/description": "Contains a CA bundle that can be used to verify the "
                            "kube-apiserver when using internal endpoints such as the internal service IP or "
                            "kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
                            "clusters."
                        },
                    },
                    "data": {"ca.crt": self.authority},
                },
            ),
        )
        for resource, item in wanted:
            key = (namespace, item["metadata"]["name"])
            kind = self.registry.by_resource(resource)
            if self.store.get(resource, key) is None and kind is not None:
                item["metadata"]["namespace"] = namespace
                meta.prepare_create(kind, item)
                self.store.put(resource, key, item, 0)

    def _empty(self, name: str) -> None:
        """Delete what is in a namespace that goes; the namespace itself when nothing is left."""
        record = self.store.get("namespaces", ("", name))
        if record is None or not record.deleting:
            self._going.pop(name, None)
            return
        for kind, content in self._content(name):
            if not content.deleting:
                self.deleter.remove(kind, content, Options(policy="Background"))
        left = self._content(name)
        item = record.load()
        status = item.setdefault("status", {})
        conditions = remaining(left)
        had = {each["type"]: each for each in status.get("conditions") or ()}
        for each in conditions:
            was = had.get(each["type"], {})
            same = was.get("status") == each["status"]
            each["lastTransitionTime"] = was["lastTransitionTime"] if same else meta.now()
        if status.get("conditions") != conditions:
            status["conditions"] = conditions
            record = self.store.put("namespaces", ("", name), item, record.version)
        if left:
            return
        item["spec"] = {name: value for name, value in (item.get("spec") or {}).items() if name != "finalizers"}
        if item["metadata"].get("finalizers"):
            if item["spec"] != (record.load().get("spec") or {}):
                self.store.put("namespaces", ("", name), item, record.version)
            return
        self._going.pop(name, None)
        self.store.remove("namespaces", ("", name), record.version)

    def _content(self, namespace: str) -> list[tuple[Kind, Record]]:
        found = []
        for resource in self.store.resources():
            kind = self.registry.by_resource(resource)
            if kind is not None and kind.namespaced:
                found += [(kind, record) for record in self.store.select(resource, namespace)]
        return found

    # -- custom kinds

    def _look_again(self, name: str) -> None:
        record = self.store.get(DEFINITIONS, ("", name))
        if record is None:
            self._leaving.discard(name)
        else:
            self._definition(record)

    def _definition(self, record: Record) -> None:
        definition = record.load()
        if not record.deleting:
            if establish(definition):
                self.store.put(DEFINITIONS, record.key, definition, record.version)
            self.registry.install(definition)
            return
        resource = f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"
        kind = self.registry.by_resource(resource)
        for each in self.store.select(resource) if kind else ():
            if kind and not each.deleting:
                self.deleter.remove(kind, each, Options(policy="Background"))
        if self.store.select(resource):
            self._leaving.add(record.key[1])
            return
        self._leaving.discard(record.key[1])
        metadata = definition["metadata"]
        metadata["finalizers"] = [each for each in metadata.get("finalizers") or () if each != CLEANUP]
        if metadata["finalizers"]:
            if len(metadata["finalizers"]) != len(record.load()["metadata"]["finalizers"]):
                self.store.put(DEFINITIONS, record.key, definition, record.version)
            return
        self.registry.uninstall(definition)
        self.store.remove(DEFINITIONS, record.key, record.version)
        # Its watches end once they have told the last deletions.
        self.store.ring(resource)


CONTENT, FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"
STEADY = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def remaining(left: list[tuple[Kind, Record]]) -> list[Object]:
    """Conditions of a namespace that is going, as to what is left in it."""
    counts = Counter(kind.resource for kind, _ in left)
    finalizers = Counter(each for _, record in left for each in record.load()["metadata"].get("finalizers") or ())
    conditions = [(type_, "False", reason, message) for type_, reason, message in STEADY]
    if counts:
        told = ", ".join(f"{resource} has {number} resource instances" for resource, number in _dotted(counts))
        conditions.append((CONTENT, "True", "SomeResourcesRemain", f"Some resources are remaining: {told}"))
    else:
        conditions.append((CONTENT, "False", "ContentRemoved", "All content successfully removed"))
    if finalizers:
        told = ", ".join(f"{name} in {number} resource instances" for name, number in sorted(finalizers.items()))
        told = f"Some content in the namespace has finalizers remaining: {told}"
        conditions.append((FINALIZERS, "True", "SomeFinalizersRemain", told))
    else:
        told = "All content-preserving finalizers finished"
        conditions.append((FINALIZERS, "False", "ContentHasNoFinalizers", told))
    names = ("type", "status", "reason", "message")
    return [dict(zip(names, condition, strict=True)) for condition in conditions]


def _dotted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Resource names as the conditions write them: with a dot and the group, which is empty for core kinds."""
    return sorted((name if "." in name else f"{name}.", number) for name, number in counts.items())
