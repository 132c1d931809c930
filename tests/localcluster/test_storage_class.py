"""Claims find a class by themselves, and a volume when a scheduler asks: else Volcano places no pod that mounts them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apps.localcluster.client import KubeClient, Kubeconfig
from apps.localcluster.nodeagent import storage
from tests.small_cluster import small_cluster

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
PATH = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.mark.asyncio
async def test_a_claim_gets_the_default_class_and_is_bound_once(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        client = KubeClient(Kubeconfig.load(cluster.kubeconfig), "test")
        await storage.ensure_class(client)
        await storage.ensure_class(client)
        claim = await client.create(PATH, CLAIM)
        assert claim["spec"]["storageClassName"] == storage.CLASS
        await storage.bind(client, claim, "/somewhere")
        await storage.bind(client, claim, "/somewhere")
        bound = await client.get(f"{PATH}/c")
        assert bound["status"]["phase"] == "Bound"
        volumes = (await client.get("/api/v1/persistentvolumes"))["items"]
        assert [volume["metadata"]["name"] for volume in volumes] == [bound["spec"]["volumeName"]]
        await client.close()


@pytest.mark.asyncio
async def test_a_claim_gets_its_volume_before_its_pod_is_placed(tmp_path: Path) -> None:
    """kube-scheduler and Volcano choose a node, wait for the volume, and only then place the pod."""
    with small_cluster(tmp_path) as cluster:
        client = KubeClient(Kubeconfig.load(cluster.kubeconfig), "test")
        await storage.ensure_class(client)
        provisioner = storage.Provisioner(client, {"gpu-0000"}, tmp_path / "volumes")
        running = asyncio.create_task(provisioner.run())
        for name, node in (("theirs", "elsewhere"), ("ours", "gpu-0000")):
            metadata = {"name": name, "namespace": "default", "annotations": {storage.CHOSEN: node}}
            await client.create(PATH, CLAIM | {"metadata": metadata})
        async with asyncio.timeout(20):
            while (await client.get(f"{PATH}/ours"))["status"]["phase"] != "Bound":
                await asyncio.sleep(0.05)
        (volume,) = (await client.get("/api/v1/persistentvolumes"))["items"]
        assert volume["spec"]["hostPath"]["path"] == str(tmp_path / "volumes/default/ours")
        assert (await client.get(f"{PATH}/theirs"))["status"]["phase"] == "Pending"
        running.cancel()
        await client.close()
