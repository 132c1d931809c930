"""Small pods beside a job that read its volume and compute nothing: they hold no accelerator, and their account's token
is not in them. Built as dicts."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.jobs.domain.manifests import BOARD_LABEL, EVENTS_LABEL, TENANT_LABEL, Manifest, Place, object_name
from apps.jobs.domain.templates import CHECKPOINTS

TOKENS = "/run/secrets/maas/events"
READ_SECONDS = 14 * 24 * 3600
"""No pod is there for longer; another one goes on where it was."""


@dataclass(frozen=True)
class SidePod:
    """`label` is the label that says whose pod it is, with `row_id`; `amounts` are asked for and not exceeded. `more`
    are the container's other fields."""

    name: str
    label: str
    row_id: str
    job_id: str
    image: str
    amounts: dict[str, str]
    longest_seconds: int
    args: Sequence[str] = ()
    mounts: Sequence[Manifest] = ()
    volumes: Sequence[Manifest] = ()
    more: Manifest = field(default_factory=dict)


def side_pod(pod: SidePod, place: Place) -> Manifest:
    """The pod, with the job's volume to be read only."""
    container: Manifest = {
        "name": "main",
        "image": pod.image,
        "args": list(pod.args),
        "resources": {"requests": pod.amounts, "limits": pod.amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "checkpoints", "mountPath": CHECKPOINTS, "readOnly": True}, *pod.mounts],
        **pod.more,
    }
    claim = {"claimName": object_name(pod.job_id), "readOnly": True}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": "runner",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "activeDeadlineSeconds": pod.longest_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": claim}, *pod.volumes],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(pod.name, pod.label, pod.row_id, place),
        "spec": spec,
    }


@dataclass(frozen=True)
class SeenPod:
    """What a look at such a pod comes to. `phase` as Kubernetes says; `waiting` why it does not run yet, as "code:
    text"; `exit_code` when it has ended; `ip` is "" until it has one."""

    phase: str
    waiting: str = ""
    exit_code: int | None = None
    ready: bool = False
    ip: str = ""

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def read_pod(pod: Mapping[str, Any]) -> SeenPod:
    """Every field may be missing or odd."""
    status = pod.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or []}
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or []), {})
    state = container.get("state") or {}
    code = (state.get("terminated") or {}).get("exitCode")
    waiting, placed = state.get("waiting") or {}, conditions.get("PodScheduled", {})
    text = ""
    if waiting.get("reason") and waiting["reason"] != "ContainerCreating":
        text = f"{waiting['reason']}: {waiting.get('message') or ''}"
    elif placed.get("status") == "False":
        text = f"{placed.get('reason') or ''}: {placed.get('message') or ''}"
    return SeenPod(
        str(status.get("phase") or "Pending"),
        text[:300],
        code if isinstance(code, int) else None,
        conditions.get("Ready", {}).get("status") == "True",
        str(status.get("podIP") or ""),
    )


def _metadata(name: str, label: str, row_id: str, place: Place) -> Manifest:
    labels = {label: row_id, TENANT_LABEL: place.tenant, "app.kubernetes.io/managed-by": "maas-portal"}
    return {"name": name, "namespace": place.namespace, "labels": labels}


# --- reading event files ----------------------------------------------------------------------------------------------


def reader_name(job_id: str) -> str:
    """The name of everything that reading a job's event files owns in its cluster."""
    return f"e-{job_id.lower()}"


def reader_secret(job_id: str, place: Place, token: str) -> Manifest:
    """The token as a file, never in an environment: that would stand in the pod's manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(reader_name(job_id), EVENTS_LABEL, job_id, place),
        "type": "Opaque",
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


def reader_pod(job_id: str, place: Place, image: str, portal: str) -> Manifest:
    """Reads the volume and tells `portal`, the portal as pods reach it, what it finds. It may write nothing but its own
    log."""
    name = reader_name(job_id)
    pod = SidePod(
        name,
        EVENTS_LABEL,
        job_id,
        job_id,
        image,
        {"cpu": "100m", "memory": "64Mi"},
        READ_SECONDS,
        (f"--portal={portal}", f"--job={job_id}", f"--token-file={TOKENS}/token", f"--directory={CHECKPOINTS}"),
        mounts=[{"name": "token", "mountPath": TOKENS, "readOnly": True}],
        volumes=[{"name": "token", "secret": {"secretName": name, "defaultMode": 0o440}}],
    )
    return side_pod(pod, place)


# --- TensorBoard ------------------------------------------------------------------------------------------------------

BOARD_PORT = 6006
SCRATCH = "/scratch"
"""Where it notes that it runs. Not /tmp: on a machine that is its own cluster the image may lie below it."""


def board_name(board_id: str) -> str:
    """The name of a TensorBoard's pod, and of its part of the gateway's paths."""
    return f"board-{board_id.lower()}"


def board_pod(board_id: str, job_id: str, place: Place, image: str, prefix: str, seconds: int) -> Manifest:
    """A TensorBoard of the job's volume below the path `prefix`. It listens at the pod's own address: a machine that
    runs several pods has one for each."""
    probe = {"httpGet": {"path": f"{prefix}/", "port": BOARD_PORT}, "periodSeconds": 2, "timeoutSeconds": 5}
    pod = SidePod(
        board_name(board_id),
        BOARD_LABEL,
        board_id,
        job_id,
        image,
        {"cpu": "500m", "memory": "1Gi"},
        seconds,
        (f"--logdir={CHECKPOINTS}", "--host=$(POD_IP)", f"--port={BOARD_PORT}", f"--path_prefix={prefix}",
         "--reload_interval=15", "--load_fast=false"),
        mounts=[{"name": "scratch", "mountPath": SCRATCH}],
        volumes=[{"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}}],
        more={
            "env": [
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "HOME", "value": SCRATCH},
                {"name": "TMPDIR", "value": SCRATCH},
            ],
            "ports": [{"name": "http", "containerPort": BOARD_PORT, "protocol": "TCP"}],
            "readinessProbe": probe,
        },
    )  # fmt: skip
    return side_pod(pod, place)
