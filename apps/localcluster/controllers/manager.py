"""All controllers over one store."""

from __future__ import annotations

import asyncio

from apps.localcluster.apiserver.tokens import Tokens
from apps.localcluster.controllers.accounts import AccountTokens
from apps.localcluster.controllers.base import Cluster, Loop
from apps.localcluster.controllers.definitions import Definitions
from apps.localcluster.controllers.deployments import Deployments
from apps.localcluster.controllers.disruption import Budgets
from apps.localcluster.controllers.garbage import GarbageCollector
from apps.localcluster.controllers.jobs import Jobs
from apps.localcluster.controllers.namespaces import Namespaces
from apps.localcluster.controllers.nodes import Evictions, Nodes
from apps.localcluster.controllers.quotas import QuotaStatus
from apps.localcluster.controllers.replicasets import ReplicaSets
from apps.localcluster.controllers.scheduler import Scheduler


class Controllers:
    """Runs them. `authority` is the certificate (PEM) that every namespace is given."""

    def __init__(self, cluster: Cluster, tokens: Tokens, authority: str) -> None:
        self.store = cluster.store
        controllers = [
            Namespaces(cluster, authority),
            Definitions(cluster),
            GarbageCollector(cluster),
            QuotaStatus(cluster),
            ReplicaSets(cluster),
            Deployments(cluster),
            Jobs(cluster),
            Budgets(cluster),
            Nodes(cluster),
            Evictions(cluster),
            Scheduler(cluster),
            AccountTokens(cluster, tokens, authority),
        ]
        self.loops = [Loop(each) for each in controllers]

    async def run(self) -> None:
        """Never returns."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feed())
            for loop in self.loops:
                group.create_task(loop.run())

    async def _feed(self) -> None:
        """Tell every controller what has changed; all there is, at the start and after a gap in the history."""
        bell, seen = self.store.listen(""), -1
        while True:
            bell.clear()
            if seen < self.store.oldest:
                for loop in self.loops:
                    loop.add(loop.controller.first())
            else:
                for event in self.store.events_after(seen):
                    for loop in self.loops:
                        loop.add(loop.controller.stirred(event))
            seen = self.store.version
            await bell.wait()
