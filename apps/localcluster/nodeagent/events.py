"""Events about pods, written by one task in the background: they never hold a pod up, and a few may be lost."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import Any

import httpx

from apps.localcluster.client import ApiError, KubeClient
from apps.localcluster.nodeagent.shim import now

Object = dict[str, Any]
log = logging.getLogger(__name__)
COMPONENT = "nodeagent"
QUEUED = 1000
REMEMBERED = 2000


def event(pod: Object, kind: str, reason: str, message: str, container: str = "") -> Object:
    """A core/v1 Event about a pod, or one of its containers; its name follows from what it says."""
    metadata = pod["metadata"]
    key = "\0".join((metadata["uid"], reason, message, container))
    path = {"fieldPath": f"spec.containers{{{container}}}"} if container else {}
    stamp = now().partition(".")[0] + "Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{hashlib.sha256(key.encode()).hexdigest()[:16]}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            **path,
        },
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": COMPONENT, "host": pod["spec"].get("nodeName", "")},
        "reportingComponent": COMPONENT,
        "reportingInstance": pod["spec"].get("nodeName", ""),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


class Recorder:
    """Sends events in order; one said before is counted up instead of written again."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self._queue: asyncio.Queue[Object] = asyncio.Queue(QUEUED)
        self._counts: dict[str, int] = {}

    def normal(self, pod: Object, reason: str, message: str, container: str = "") -> None:
        self._put(event(pod, "Normal", reason, message, container))

    def warning(self, pod: Object, reason: str, message: str, container: str = "") -> None:
        self._put(event(pod, "Warning", reason, message, container))

    def _put(self, item: Object) -> None:
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            log.warning("event dropped: %s", item["message"])

    async def run(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._send(item)
            except (ApiError, httpx.TransportError) as error:
                log.info("event not written: %s", error)

    async def _send(self, item: Object) -> None:
        folder = f"/api/v1/namespaces/{item['metadata']['namespace']}/events"
        name = item["metadata"]["name"]
        count = self._counts.get(name, 0) + 1
        if len(self._counts) > REMEMBERED:
            self._counts.clear()
        self._counts[name] = count
        if count == 1:
            try:
                await self.client.create(folder, item)
                return
            except ApiError as error:
                if error.status != 409:
                    raise
            stored = await self.client.get(f"{folder}/{name}")
            count = self._counts[name] = int(stored.get("count") or 1) + 1
        await self.client.merge_patch(f"{folder}/{name}", {"count": count, "lastTimestamp": item["lastTimestamp"]})


class OncePer:
    """Remembers what was said about something, so that a state that lasts is told when it begins and then rarely."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._said: dict[tuple[str, ...], float] = {}

    def __call__(self, *key: str) -> bool:
        """True if it is time to say this (again)."""
        at = time.monotonic()
        if at - self._said.get(key, -self.seconds) < self.seconds:
            return False
        if len(self._said) > REMEMBERED:
            self._said = {key: said for key, said in self._said.items() if at - said < self.seconds}
        self._said[key] = at
        return True
