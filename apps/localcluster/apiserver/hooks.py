"""Admission webhooks: the objects that configure them, and the calls."""

from __future__ import annotations

from apps.localcluster.apiserver.admission import Operation


class Webhooks:
    def __init__(self, store: object) -> None:
        self.store = store

    async def close(self) -> None:
        pass

    async def mutate(self, operation: Operation) -> None:
        del operation

    async def validate(self, operation: Operation) -> None:
        del operation
