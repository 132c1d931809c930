"""The objects that make up a tenant's place, as dicts."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def place_manifests(*, tenant: str, namespace: str, queue: str, accelerator: str, gpus: int) -> list[Manifest]:
    """Namespace with Pod Security labels, the account pods run as, and the Volcano queue with its limit.

    The limit always names the accelerator: a capability without it leaves GPUs unlimited.
    """
    labels = {"maas.portal/tenant": tenant, "app.kubernetes.io/managed-by": "maas-portal"}
    security = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {**labels, **security}}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "runner", "namespace": namespace, "labels": labels},
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": queue, "labels": labels},
            "spec": {"weight": 1, "reclaimable": False, "capability": {accelerator: str(gpus)}},
        },
    ]
