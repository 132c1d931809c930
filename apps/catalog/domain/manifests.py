"""What a cluster is sent to bring a checkpoint: a Secret with the token, and a pod that reads the volume."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]

TRANSFER_LABEL = "maas.portal/transfer"
TENANT_LABEL = "maas.portal/tenant"
CHECKPOINTS = "/checkpoints"
TOKENS = "/run/secrets/maas/transfer"
LONGEST_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Carry:
    """One transfer: its id, the namespace and the claim to read, the image, the portal as pods reach it, and the last
    step whose checkpoint counts (None: any)."""

    transfer_id: str
    tenant: str
    namespace: str
    claim: str
    image: str
    portal: str
    until_step: int | None = None


def object_name(transfer_id: str) -> str:
    """The name of everything a transfer owns in its cluster."""
    return f"t-{transfer_id.lower()}"


def labels(carry: Carry) -> dict[str, str]:
    return {
        TRANSFER_LABEL: carry.transfer_id,
        TENANT_LABEL: carry.tenant,
        "app.kubernetes.io/managed-by": "maas-portal",
    }


def _metadata(carry: Carry) -> Manifest:
    return {"name": object_name(carry.transfer_id), "namespace": carry.namespace, "labels": labels(carry)}


def secret(carry: Carry, token: str) -> Manifest:
    """The token as a file, never in an environment: that would stand in the pod's manifest."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(carry), "type": "Opaque"}
    return body | {"data": {"token": base64.b64encode(token.encode()).decode()}}


def pod(carry: Carry) -> Manifest:
    """Reads the claim, sends what it finds, and ends. It may write nothing but its own log."""
    resources = {"cpu": "100m", "memory": "256Mi"}
    container = {
        "name": "main",
        "image": carry.image,
        "args": [f"--portal={carry.portal}", f"--transfer={carry.transfer_id}", f"--token-file={TOKENS}/token",
                 f"--checkpoints={CHECKPOINTS}",
                 *([] if carry.until_step is None else [f"--until-step={carry.until_step}"])],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "checkpoints", "mountPath": CHECKPOINTS, "readOnly": True},
            {"name": "token", "mountPath": TOKENS, "readOnly": True},
        ],
    }  # fmt: skip
    name = object_name(carry.transfer_id)
    spec = {
        "restartPolicy": "Never",
        "serviceAccountName": "runner",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "activeDeadlineSeconds": LONGEST_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": carry.claim, "readOnly": True}},
            {"name": "token", "secret": {"secretName": name, "defaultMode": 0o440}},
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(carry), "spec": spec}
