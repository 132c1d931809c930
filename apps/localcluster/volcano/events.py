"""Events about what was done and why something waits. They are told when there is time and never hold up a decision."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import httpx

from apps.localcluster.client import ApiError, KubeClient
from apps.localcluster.volcano.objects import CORE, name, namespace, now, path, uid

log = logging.getLogger(__name__)

Object = dict[str, Any]
Known = tuple[str, str, str, int]
REMEMBERED = 2000
QUEUED = 5000


def _key(about: Object, source: str, reason: str, message: str) -> Known:
    # Texts are long, and thousands of them are remembered.
    return uid(about), source, reason, hash(message)


@dataclass
class Recorder:
    """Writes events; one that was told already about the same object only gets a higher count."""

    client: KubeClient
    _told: OrderedDict[Known, list[Any]] = field(default_factory=OrderedDict)  # name and count
    _lately: OrderedDict[Known, None] = field(default_factory=OrderedDict)
    _queue: asyncio.Queue[tuple[Object, Object]] = field(default_factory=lambda: asyncio.Queue(QUEUED))

    def tell(self, about: Object, source: str, kind: str, reason: str, message: str) -> None:
        """Queue an event about an object; `kind` is Normal or Warning."""
        entry = {"source": source, "type": kind, "reason": reason, "message": message[:1024]}
        if not self._queue.full():
            self._queue.put_nowait((about, entry))

    def tell_once(self, about: Object, source: str, kind: str, reason: str, message: str) -> None:
        """Like `tell`, but nothing if these words about this object were told lately."""
        key = _key(about, source, reason, message)
        if key not in self._lately:
            self.tell(about, source, kind, reason, message)
        self._lately[key] = None
        self._lately.move_to_end(key)
        if len(self._lately) > REMEMBERED:
            self._lately.popitem(last=False)

    async def run(self) -> None:
        while True:
            about, entry = await self._queue.get()
            try:
                await self._write(about, entry)
            except (ApiError, httpx.TransportError) as error:
                log.info("event %s about %s not written: %s", entry["reason"], name(about), error)

    async def _write(self, about: Object, entry: Object) -> None:
        key = _key(about, entry["source"], entry["reason"], entry["message"])
        where, known = path(CORE, "events", namespace(about) or "default"), self._told.get(key)
        if known is not None:
            known[1] += 1
            self._told.move_to_end(key)
            patch = {"count": known[1], "lastTimestamp": now()}
            try:
                await self.client.merge_patch(f"{where}/{known[0]}", patch)
            except ApiError as error:
                if error.status != 404:
                    raise
                del self._told[key]  # events are kept for a while only
            else:
                return
        event = self._event(about, entry)
        self._told[key] = [name(event), 1]
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        await self.client.create(where, event)

    def _event(self, about: Object, entry: Object) -> Object:
        space, time = namespace(about) or "default", now()
        reference = {
            "apiVersion": about.get("apiVersion", "v1"),
            "kind": about.get("kind", "Pod"),
            "name": name(about),
            "uid": uid(about),
            "resourceVersion": str(about["metadata"].get("resourceVersion", "")),
        } | ({"namespace": namespace(about)} if namespace(about) else {})
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name(about)[:200]}.{secrets.token_hex(8)}", "namespace": space},
            "involvedObject": reference,
            "type": entry["type"],
            "reason": entry["reason"],
            "message": entry["message"],
            "source": {"component": entry["source"]},
            "reportingComponent": entry["source"],
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
