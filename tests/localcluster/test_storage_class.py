"""Claims find a class by themselves: without one, Volcano places no pod that mounts them."""

from __future__ import annotations

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
