"""Storage: a default class whose volumes are folders of this machine, bound when the first pod of a claim arrives."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx

from apps.localcluster.client import ApiError, KubeClient

Object = dict[str, Any]
log = logging.getLogger(__name__)

CLASS = "local-folder"
CLASS_PATH = "/apis/storage.k8s.io/v1/storageclasses"


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


async def _once(client: KubeClient, path: str, body: Object) -> None:
    try:
        await client.create(path, body)
    except ApiError as error:
        if error.status != 409:
            raise
