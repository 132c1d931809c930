"""Storage: a default class whose volumes are folders of this machine, bound when the first pod of a claim arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container
from pathlib import Path
from typing import Any

import httpx

from apps.localcluster.client import ApiError, Key, KubeClient, Reflector, key_of

Object = dict[str, Any]
log = logging.getLogger(__name__)

CLASS = "local-folder"
CLASS_PATH = "/apis/storage.k8s.io/v1/storageclasses"
CHOSEN = "volume.kubernetes.io/selected-node"
"""The annotation by which a scheduler asks for a claim's volume."""


async def ensure_class(client: KubeClient) -> None:
    """Offer the class, as the cluster's default. Without one, a claim has no class and Volcano places no pod of it."""
    body: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "localcluster/folder",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    while True:
        try:
            await client.create(CLASS_PATH, body)
            return
        except ApiError as error:
            if error.status == 409:
                return
            log.warning("no storage class yet: %s", error)
        except httpx.TransportError as error:
            log.info("no storage class yet: %r", error)
        await asyncio.sleep(1)


async def bind(client: KubeClient, claim: Object, folder: str) -> None:
    """Give a claim of our class the volume it asks for, unless it has one. Raises ApiError, httpx.TransportError."""
    metadata, spec = claim["metadata"], claim["spec"]
    if spec.get("storageClassName") != CLASS or claim.get("status", {}).get("phase") == "Bound":
        return
    name = f"pvc-{metadata['uid']}"
    capacity = spec["resources"]["requests"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": metadata["uid"]}
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": capacity,
            "accessModes": spec["accessModes"],
            "claimRef": {**reference, "namespace": metadata["namespace"], "name": metadata["name"]},
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": folder},
        },
    }
    await _once(client, "/api/v1/persistentvolumes", volume)
    path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
    if spec.get("volumeName") != name:
        await client.merge_patch(path, {"spec": {"volumeName": name}})
    status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity}
    await client.merge_patch(f"{path}/status", {"status": status})
    await client.merge_patch(f"/api/v1/persistentvolumes/{name}/status", {"status": {"phase": "Bound"}})


class Provisioner:
    """Gives a claim its volume as soon as a scheduler has chosen a node of ours for the claim's first pod.

    kube-scheduler and Volcano place the pod only then; our stand-in for Volcano places it at once, and the claim is
    bound when the pod starts.
    """

    def __init__(self, client: KubeClient, nodes: Container[str], folder: Path) -> None:
        """`nodes`: names of ours. `folder`: where volumes are, by namespace and claim."""
        self.client, self.nodes, self.folder = client, nodes, folder
        self.claims = Reflector(client, "/api/v1/persistentvolumeclaims", self._changed)
        self._chosen: asyncio.Queue[Key] = asyncio.Queue()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.claims.run())
            while True:
                await self._provide(await self._chosen.get())

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        if new and new["metadata"].get("annotations", {}).get(CHOSEN) in self.nodes:
            self._chosen.put_nowait(key_of(new))

    async def _provide(self, key: Key) -> None:
        claim = self.claims.store.get(key)
        try:
            if claim:
                await bind(self.client, claim, str(self.folder.joinpath(*key)))
        except (ApiError, httpx.TransportError) as error:
            log.info("no volume for claim %s yet: %s", key, error)
            asyncio.get_running_loop().call_later(1, self._chosen.put_nowait, key)


async def _once(client: KubeClient, path: str, body: Object) -> None:
    try:
        await client.create(path, body)
    except ApiError as error:
        if error.status != 409:
            raise
