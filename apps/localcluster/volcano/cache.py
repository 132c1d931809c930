"""Reflectors that also know what was just written, so that a controller never decides on a view older than its own."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.client import ApiError, Key, Reflector, key_of

log = logging.getLogger(__name__)

Object = dict[str, Any]


def _version(item: Object) -> int:
    return int(item["metadata"]["resourceVersion"])


def _slim(item: Object) -> Object:
    # Half of a pod, and nothing that a controller reads. An update without it leaves it as it is.
    item["metadata"].pop("managedFields", None)
    return item


@dataclass
class Cache(Reflector):
    """A collection of the server. `optional`: the server may not offer this kind at all, then it is empty.
    `shape` makes of an object what is kept of it; it is only ever written back by patches."""

    optional: bool = False
    shape: Callable[[Object], Object] = _slim
    _buried: deque[str] = field(default_factory=lambda: deque(maxlen=1000))

    def remember(self, item: Object) -> Object | None:
        """Take the server's answer to our own write as seen; None if the watch was faster, else what is kept of it."""
        known = self.store.get(key_of(item))
        if item["metadata"]["uid"] in self._buried or (known is not None and _version(known) >= _version(item)):
            return None
        kept = self.store[key_of(item)] = self.shape(item)
        return kept

    def forget(self, item: Object) -> None:
        """Take an object that we deleted, and that is gone at once, as gone."""
        known = self.store.get(key_of(item))
        if known is not None and known["metadata"]["uid"] == item["metadata"]["uid"]:
            self._take(None, key_of(item))

    def _deleted(self, last: Object) -> None:
        known = self.store.get(key_of(last))
        if known is not None and known["metadata"]["uid"] != last["metadata"]["uid"]:
            self._buried.append(last["metadata"]["uid"])
            return  # its successor of the same name is known already
        super()._deleted(last)

    def _take(self, new: Object | None, key: Key) -> None:
        known = self.store.get(key)
        if new is None:
            if known is None:
                return  # we have forgotten it already
            self._buried.append(known["metadata"]["uid"])
        if new is not None and known is not None and _version(new) < _version(known):
            return  # the watch is still on its way to what we have remembered
        super()._take(self.shape(new) if new is not None else None, key)

    async def _list(self) -> str:
        try:
            return await super()._list()
        except ApiError as error:
            if error.status == 404 and self.optional:
                self.synced.set()
            raise


async def all_synced(caches: Iterable[Cache]) -> None:
    await asyncio.gather(*(cache.synced.wait() for cache in caches))
