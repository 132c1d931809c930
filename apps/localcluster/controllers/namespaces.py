"""Namespaces: what each has from the start, and its end, which waits for everything in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.store import Event, Key, Record
from apps.localcluster.controllers.base import Cluster, Controller

Object = dict[str, Any]

FIRST_SECONDS = 0.1  # how long a deleted namespace is left alone
AGAIN_SECONDS = 1.0  # how soon one that still has content is looked at again
AUTHORITY_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class Namespaces(Controller):
    resource = "namespaces"

    def __init__(self, cluster: Cluster, authority: str) -> None:
        super().__init__(cluster)
        self.authority = authority
        self._going: dict[str, float] = {}
        """When each namespace was first seen to go."""

    def stirred(self, event: Event) -> Iterable[Key]:
        record = event.record
        if record.resource == "namespaces":
            return [record.key]
        gone = event.type == "DELETED" and record.resource in ("serviceaccounts", "configmaps")
        return [("", record.key[0])] if gone else ()

    async def look(self, key: Key) -> float | None:
        record = self.store.get("namespaces", key)
        if record is None:
            self._going.pop(key[1], None)
            return None
        if not record.deleting:
            self._fill(key[1])
            return None
        now = asyncio.get_running_loop().time()
        early = self._going.setdefault(key[1], now) + FIRST_SECONDS - now
        return early if early > 0 else self._empty(record)

    def _fill(self, namespace: str) -> None:
        """Every namespace has an account `default` and the certificate of the cluster's authority."""
        notes: Object = {"annotations": {"kubernetes.io/description": AUTHORITY_TEXT}}
        wanted: tuple[tuple[str, str, Object], ...] = (
            ("serviceaccounts", "default", {"metadata": {}}),
            ("configmaps", "kube-root-ca.crt", {"metadata": notes, "data": {"ca.crt": self.authority}}),
        )
        for resource, name, item in wanted:
            if self.store.get(resource, (namespace, name)) is None:
                item["metadata"] |= {"name": name, "namespace": namespace}
                meta.prepare_create(self.cluster.kind(resource), item)
                self.store.put(resource, (namespace, name), item, 0)

    def _empty(self, record: Record) -> float | None:
        """Delete what is in a namespace that goes; the namespace itself when nothing is left."""
        for _, content in self._content(record.key[1]):
            if not content.deleting:
                self.cluster.delete(content)
        left, item = self._content(record.key[1]), record.load()
        status, conditions = item.setdefault("status", {}), remaining(left)
        had = {each["type"]: each for each in status.get("conditions") or ()}
        for each in conditions:
            was = had.get(each["type"], {})
            same = was.get("status") == each["status"]
            each["lastTransitionTime"] = was["lastTransitionTime"] if same else meta.now()
        if status.get("conditions") != conditions:
            status["conditions"] = conditions
            record = self.store.put("namespaces", record.key, item, record.version)
        if left:
            return AGAIN_SECONDS
        if not item["metadata"].get("finalizers"):
            self.store.remove("namespaces", record.key, record.version)
        elif "finalizers" in (item.get("spec") or {}):
            del item["spec"]["finalizers"]
            self.store.put("namespaces", record.key, item, record.version)
        return None

    def _content(self, namespace: str) -> list[tuple[Kind, Record]]:
        kinds = [self.cluster.registry.by_resource(resource) for resource in self.store.resources()]
        inside = [kind for kind in kinds if kind is not None and kind.namespaced]
        return [(kind, record) for kind in inside for record in self.store.select(kind.resource, namespace)]


STEADY = (
    ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)
CONTENT, FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"


def remaining(left: list[tuple[Kind, Record]]) -> list[Object]:
    """Conditions of a namespace that is going, as to what is left in it."""
    # As the conditions write them: with a dot and the group, which is empty for core kinds.
    counts = Counter(f"{kind.plural}.{kind.group}" for kind, _ in left)
    finalizers = Counter(each for _, record in left for each in record.load()["metadata"].get("finalizers") or ())
    content = (CONTENT, "False", "ContentRemoved", "All content successfully removed")
    holding = (FINALIZERS, "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
    if counts:
        told = ", ".join(f"{resource} has {number} resource instances" for resource, number in sorted(counts.items()))
        content = (CONTENT, "True", "SomeResourcesRemain", f"Some resources are remaining: {told}")
    if finalizers:
        told = ", ".join(f"{name} in {number} resource instances" for name, number in sorted(finalizers.items()))
        told = f"Some content in the namespace has finalizers remaining: {told}"
        holding = (FINALIZERS, "True", "SomeFinalizersRemain", told)
    names = ("type", "status", "reason", "message")
    return [dict(zip(names, condition, strict=True)) for condition in (*STEADY, content, holding)]
