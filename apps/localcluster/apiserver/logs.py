"""pods/log: passed on to the agent of the pod's node."""

from __future__ import annotations

from apps.localcluster.apiserver.answers import Answer
from apps.localcluster.apiserver.errors import not_implemented
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.store import Store


class PodLogs:
    def __init__(self, store: Store) -> None:
        self.store = store

    async def close(self) -> None:
        pass

    async def read(self, request: Request) -> Answer:
        raise not_implemented("log")
