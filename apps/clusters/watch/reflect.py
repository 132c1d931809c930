"""Keeping a copy of one collection of a cluster, and saying what changes in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
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

LATE_SECONDS = 5.0
"""What a watch has not told this long after a list showed it, it will not tell."""
COMPARE_TRIES = 5


class HasMeta(Protocol):
    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=HasMeta)
Key = tuple[str, str]


@dataclass
class Reflector(Generic[T]):
    """Lists and watches `path`; `changed(old, new)` gets None for what was not there or is gone.

    After an expired version everything is listed again and compared, so that deletions missed meanwhile are told too.
    With `keep` false nothing is stored and only what comes after the first list is told; what a list shows is `found`.
    Never returns.
    """

    reader: StreamReader
    path: str
    decoder: msgspec.json.Decoder[T]
    changed: Callable[[T | None, T | None], None]
    broken: Callable[[], None]
    """Told of each failure, so that somebody may look whether the cluster still answers."""
    label_selector: str = ""
    keep: bool = True
    found: Callable[[T], None] | None = None
    store: dict[Key, T] = field(default_factory=dict)
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _breaks: int = 0
    _touched: set[Key] | None = None
    """What was told of since a comparison began."""

    async def run(self) -> None:
        version, pause = "", FIRST_PAUSE
        while True:
            try:
                version = version or await self._list()
                watch = self.reader.watch(self.path, version, self.decoder, label_selector=self.label_selector)
                async for event in watch:
                    if _is_before(event.version, version):
                        log.warning("watch_out_of_order", path=self.path, version=event.version, after=version)
                        raise Expired
                    version, pause = event.version or version, FIRST_PAUSE
                    if event.object is not None:
                        self._take(event.object, gone=event.type == "DELETED")
                # A clean end may also mean that the kind was removed; the next list would say so.
                self._breaks += 1
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
            self._breaks += 1
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
        elif self.found:
            for item in items:
                self.found(item)
        self.synced.set()
        return version

    async def compare(self) -> int:
        """List everything beside the watch; how many objects differ though the watch had time to tell. They are set
        right. 0 also where the watch broke again and again meanwhile. Raises what a list raises."""
        for _ in range(COMPARE_TRIES):
            breaks, touched = self._breaks, set[Key]()
            self._touched = touched
            try:
                fresh = await self._unlike()
                await asyncio.sleep(LATE_SECONDS)
            finally:
                self._touched = None
            if breaks == self._breaks and self.synced.is_set():
                missed = {key: item for key, item in fresh.items() if key not in touched}
                for key, item in missed.items():
                    self._take(item or self.store[key], gone=item is None)
                return len(missed)
        return 0

    async def _unlike(self) -> dict[Key, T | None]:
        """What a list shows other than it is stored; None for what it does not show."""
        items, _version = await self.reader.listing(self.path, self.decoder, label_selector=self.label_selector)
        fresh = {_key(item): item for item in items}
        keys = fresh.keys() | self.store.keys()
        return {key: fresh.get(key) for key in keys if _version_of(fresh, key) != _version_of(self.store, key)}

    def _take(self, item: T, *, gone: bool) -> None:
        key = _key(item)
        if self._touched is not None:
            self._touched.add(key)
        old = self.store.pop(key, None) if gone else self.store.get(key)
        if not gone and self.keep:
            self.store[key] = item
        self.changed(old if self.keep or not gone else item, None if gone else item)


def _is_before(version: str, other: str) -> bool:
    """Versions of one collection grow. A stream in which they do not cannot be trusted: an older state would stay, and
    what is gone come back. (Of a server whose versions are no numbers nothing is said.)"""
    return version.isdigit() and other.isdigit() and int(version) < int(other)


def _version_of(items: Mapping[Key, T], key: Key) -> str:
    return items[key].metadata.resourceVersion if key in items else ""


def _key(item: HasMeta) -> Key:
    return item.metadata.namespace, item.metadata.name
