"""The HyperNode controller: counts the members of every HyperNode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.client import Key, KubeClient, key_of
from apps.localcluster.volcano.cache import Cache
from apps.localcluster.volcano.objects import TOPOLOGY, name, path
from apps.localcluster.volcano.scheduler import topology
from apps.localcluster.volcano.work import WorkQueue

Object = dict[str, Any]


@dataclass
class HyperNodeController:
    client: KubeClient
    hypernodes: Cache
    nodes: Cache
    queue: WorkQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.reconcile, workers=1)

    def hypernode_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(key_of(new or old or {}))

    def node_changed(self, old: Object | None, new: Object | None) -> None:
        """Only coming, going and labels of nodes change what is counted."""
        labels = [(item or {"metadata": {}})["metadata"].get("labels") for item in (old, new)]
        if old is None or new is None or labels[0] != labels[1]:
            for key in self.hypernodes.store:
                self.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        item = self.hypernodes.store.get(key)
        if item is None:
            return
        count = topology.count(item, self.nodes.store.values())
        if count != (item.get("status") or {}).get("nodeCount", 0):
            where = path(TOPOLOGY, "hypernodes", "", name(item), "status")
            self.hypernodes.remember(await self.client.merge_patch(where, {"status": {"nodeCount": count}}))
