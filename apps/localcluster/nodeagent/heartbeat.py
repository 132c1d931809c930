"""Keeps the fleet's Node objects and their leases as they should be."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from apps.localcluster.client import ApiError, KubeClient
from apps.localcluster.nodeagent import fleet
from apps.localcluster.nodeagent.status import differs

Object = dict[str, Any]
log = logging.getLogger(__name__)
BEAT = 10  # seconds between two heartbeats, as a kubelet has it
TRIES = 5
REPORT = 300  # seconds between two reports that say nothing new
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Heartbeat:
    """Looks at each node every ten seconds and sets right what is not: missing, without labels, not ready."""

    client: KubeClient
    nodes: Mapping[str, fleet.Node]
    port: int
    _reported: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            for node in self.nodes.values():
                await self._try(node)
            await asyncio.sleep(max(0.5, BEAT - (time.monotonic() - began)))

    async def _try(self, node: fleet.Node) -> None:
        for attempt in range(TRIES):
            try:
                await self.beat(node)
                return
            except (ApiError, httpx.TransportError) as error:
                # A conflict is another writer, common while a node is new: look again at once.
                if getattr(error, "status", None) != 409 or attempt == TRIES - 1:
                    log.warning("heartbeat of %s: %s", node.name, error)
                    return

    async def beat(self, node: fleet.Node) -> None:
        stored = await self._ensure(node)
        await self._report(node, stored)
        await self._renew(node.name, stored["metadata"]["uid"])

    async def _ensure(self, node: fleet.Node) -> Object:
        path = f"/api/v1/nodes/{node.name}"
        try:
            stored = await self.client.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return await self.client.create("/api/v1/nodes", node.object())
        if node.labels.items() <= (stored["metadata"].get("labels") or {}).items():
            return stored
        return await self.client.merge_patch(path, {"metadata": {"labels": node.labels}})

    async def _report(self, node: fleet.Node, stored: Object) -> None:
        now = _now().strftime("%Y-%m-%dT%H:%M:%SZ")
        due = time.monotonic() - self._reported.get(node.name, -REPORT) >= REPORT
        seen = stored.get("status") or {}
        wanted = fleet.status(node, seen.get("conditions") or [], self.port, now, due)
        if not due and not differs(wanted, seen):
            return
        # Conditional, because others (a node problem detector, the node controller) write conditions too.
        metadata = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        await self.client.merge_patch(f"/api/v1/nodes/{node.name}/status", {"metadata": metadata, "status": wanted})
        self._reported[node.name] = time.monotonic()

    async def _renew(self, name: str, uid: str) -> None:
        lease = fleet.lease(name, uid, _now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        try:
            await self.client.merge_patch(f"{LEASES}/{name}", {"spec": lease["spec"]})
        except ApiError as error:
            if error.status != 404:
                raise
            await self._create_lease(lease)

    async def _create_lease(self, lease: Object) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}}
        try:
            await self.client.create("/api/v1/namespaces", namespace)
        except ApiError as error:
            if error.status != 409:
                raise
        await self.client.create(LEASES, lease)
