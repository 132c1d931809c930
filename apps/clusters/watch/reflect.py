"""Keeping a copy of one collection of a cluster, and saying what changes in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from apps.adapters.errors import OutsideError, Unavailable
from apps.adapters.kubernetes.stream import Expired, Meta, StreamReader

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
LONGEST_REFUSED_PAUSE = 30.0
"""Between tries that mostly can only help once somebody has changed something: a kind not installed, a right missing.
But an API server that has just started refuses for a moment what it will allow, until it has read the roles."""


class HasMeta(Protocol):
    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=HasMeta)
Key = tuple[str, str]


@dataclass
class Reflector(Generic[T]):
    """Lists and watches `path`; `changed(old, new)` gets None for what was not there or is gone.

    After an expired version everything is listed again and compared, so that deletions missed meanwhile are told too.
    With `keep` false nothing is stored and only what comes after the first list is told. Never returns.
    """

    reader: StreamReader
    path: str
    decoder: msgspec.json.Decoder[T]
    changed: Callable[[T | None, T | None], None]
    broken: Callable[[], None]
    """Told of each failure, so that somebody may look whether the cluster still answers."""
    label_selector: str = ""
    keep: bool = True
    store: dict[Key, T] = field(default_factory=dict)
    synced: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        version, pause = "", FIRST_PAUSE
        while True:
            try:
                version = version or await self._list()
                watch = self.reader.watch(self.path, version, self.decoder, label_selector=self.label_selector)
                async for event in watch:
                    version, pause = event.version or version, FIRST_PAUSE
                    if event.object is not None:
                        self._take(event.object, gone=event.type == "DELETED")
                # A clean end may also mean that the kind was removed; the next list would say so.
                await asyncio.sleep(0.05)
                continue
            except Expired:
                version, longest = "", LONGEST_PAUSE
            except Unavailable as error:
                log.info("watch_broke", path=self.path, error=error.text)
                self.broken()
                longest = LONGEST_PAUSE
            except OutsideError as error:
                log.warning("watch_refused", path=self.path, error=error.text)
                version, longest = "", LONGEST_REFUSED_PAUSE
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _list(self) -> str:
        items, version = await self.reader.listing(self.path, self.decoder, label_selector=self.label_selector)
        if self.keep:
            fresh = {_key(item): item for item in items}
            for key in self.store.keys() - fresh.keys():
                self._take(self.store[key], gone=True)
            for key, item in fresh.items():
                known = self.store.get(key)
                if known is None or known.metadata.resourceVersion != item.metadata.resourceVersion:
                    self._take(item, gone=False)
        self.synced.set()
        return version

    def _take(self, item: T, *, gone: bool) -> None:
        key = _key(item)
        old = self.store.pop(key, None) if gone else self.store.get(key)
        if not gone and self.keep:
            self.store[key] = item
        self.changed(old if self.keep or not gone else item, None if gone else item)


def _key(item: HasMeta) -> Key:
    return item.metadata.namespace, item.metadata.name
