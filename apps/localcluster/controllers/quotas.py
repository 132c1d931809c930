"""What quotas count goes into their status."""

from __future__ import annotations

from collections.abc import Iterable

from apps.localcluster.apiserver.quota import QUOTAS, Quotas
from apps.localcluster.apiserver.store import Event
from apps.localcluster.controllers.base import Cluster, Controller


class QuotaStatus(Controller):
    """Looks at one namespace at a time: any change in it may count."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.quotas = Quotas(cluster.store)

    def first(self) -> Iterable[str]:
        return {record.key[0] for record in self.store.select(QUOTAS)}

    def stirred(self, event: Event) -> Iterable[str]:
        namespace = event.record.key[0]
        return [namespace] if namespace and self.store.select(QUOTAS, namespace) else ()

    async def look(self, key: str) -> None:
        for record in self.store.select(QUOTAS, key):
            item = record.load()
            status = {"hard": item["spec"].get("hard") or {}}
            if used := self.quotas.used(item):
                status["used"] = used
            if item.get("status") != status:
                item["status"] = status
                self.store.put(QUOTAS, record.key, item, record.version)
