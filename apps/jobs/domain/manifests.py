"""What the cluster is sent, built as dicts from a spec."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.jobs.domain.spec import JobSpec
from apps.jobs.domain.templates import CHECKPOINTS, RESUME

Manifest = dict[str, Any]

JOB_LABEL = "maas.portal/job"
EVENTS_LABEL = "maas.portal/events"
BOARD_LABEL = "maas.portal/board"
TENANT_LABEL = "maas.portal/tenant"
ATTEMPT_ANNOTATION = "volcano.sh/job-retry-count"
"""Volcano writes it on each pod: how often the job had been restarted when the pod was made."""
FINISHED_SECONDS = 24 * 3600
RANK_PORT = 23456
SECRETS = "/run/secrets/maas"
"""Where each secret a job names is a folder of files, in every rank."""


@dataclass(frozen=True)
class Place:
    """Where a job goes: the tenant's namespace and queue in one cluster."""

    namespace: str
    queue: str
    tenant: str
    accelerator: str
    """Name of the extended resource that counts GPUs there, such as nvidia.com/gpu."""


def object_name(job_id: str) -> str:
    """The name of everything a job owns in its cluster: short enough for pod names with task and index (63)."""
    return f"j-{job_id.lower()}"


def labels(job_id: str, place: Place) -> dict[str, str]:
    return {JOB_LABEL: job_id, TENANT_LABEL: place.tenant, "app.kubernetes.io/managed-by": "maas-portal"}


def job_manifests(job_id: str, spec: JobSpec, place: Place, *, uid: str = "") -> list[Manifest]:
    """The objects of a job, in the order they are applied: the volume for checkpoints, then the Volcano Job.

    `uid` of the known Job makes a late apply fail instead of reviving a job that was deleted meanwhile.
    """
    return [_claim(job_id, place), _volcano_job(job_id, spec, place, uid)]


def secret_names(job_id: str, spec: JobSpec) -> dict[str, str]:
    """The name of the Secret object in the cluster, by the name of the secret that the job was given."""
    return {name: f"{object_name(job_id)}-s{index}" for index, name in enumerate(spec.secrets)}


def secret_manifest(name: str, job_id: str, place: Place, values: Mapping[str, str]) -> Manifest:
    """One secret's values on their way into the cluster; `name` is one of `secret_names`. Never shown, never logged."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": place.namespace, "labels": labels(job_id, place)},
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def probe_pod(job_id: str, spec: JobSpec, place: Place) -> Manifest:
    """A pod of the job's template, for a dry run: quota, Pod Security and accounts are judged at the pod."""
    template = _pod_template(job_id, spec, place)
    metadata = {**template["metadata"], "name": f"{object_name(job_id)}-probe", "namespace": place.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def command_manifest(job_id: str, place: Place, uid: str, action: str, serial: int) -> Manifest:
    """A Volcano Command such as AbortJob or ResumeJob; its name makes a repeated send the same command."""
    name = object_name(job_id)
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "name": f"{name}-{action.lower()}-{serial}",
            "namespace": place.namespace,
            "labels": labels(job_id, place),
            "ownerReferences": [owner],
        },
        "action": action,
        "target": owner,
    }


def _claim(job_id: str, place: Place) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": object_name(job_id), "namespace": place.namespace, "labels": labels(job_id, place)},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}},
    }


def _volcano_job(job_id: str, spec: JobSpec, place: Place, uid: str) -> Manifest:
    metadata: Manifest = {
        "name": object_name(job_id),
        "namespace": place.namespace,
        "labels": labels(job_id, place),
        "annotations": {"maas.portal/name": spec.name},
    }
    if uid:
        metadata["uid"] = uid
    template = _pod_template(job_id, spec, place)
    # The first rank is a task of its own: with one name for both, the pytorch plugin gives nobody rank 0.
    sizes = {"master": 1, "worker": spec.ranks - 1}
    tasks = [
        # A task without these two is given them by Volcano's webhook, and the next apply would be refused.
        {"name": name, "replicas": size, "minAvailable": size, "maxRetry": spec.attempts, "template": template}
        for name, size in sizes.items()
        if size
    ]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "schedulerName": "volcano",
            "queue": place.queue,
            "minAvailable": spec.ranks,
            "maxRetry": spec.attempts,
            "ttlSecondsAfterFinished": FINISHED_SECONDS,
            "plugins": {
                "env": [],
                "svc": ["--disable-network-policy=true"],
                "pytorch": ["--master=master", "--worker=worker", f"--port={RANK_PORT}"],
            },
            # An evicted rank alone would be made anew beside the old ranks; both events restart the gang.
            "policies": [
                {"event": "PodFailed", "action": "RestartJob"},
                {"event": "PodEvicted", "action": "RestartJob"},
            ],
            "tasks": tasks,
        },
    }


def _pod_template(job_id: str, spec: JobSpec, place: Place) -> Manifest:
    resources = {
        "cpu": f"{round(spec.cpus_per_rank * 1000)}m",
        "memory": f"{round(spec.memory_gib_per_rank * 1024)}Mi",
        place.accelerator: str(spec.gpus_per_rank),
    }
    secrets = secret_names(job_id, spec)
    return {
        "metadata": {"labels": labels(job_id, place)},
        "spec": {
            # Anything else restarts containers in place, and Volcano never hears of a failed rank.
            "restartPolicy": "Never",
            "serviceAccountName": "runner",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": spec.grace_seconds,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "runAsGroup": 1000,
                "fsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(job_id, spec, resources)],
            "volumes": [
                {"name": "checkpoints", "persistentVolumeClaim": {"claimName": object_name(job_id)}},
                *([_origin(spec.origin.job_id)] if spec.origin else []),
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": resources["memory"]}},
                # Readable by the pod's group, which is its user's alone.
                *[
                    {"name": f"secret-{index}", "secret": {"secretName": stored, "defaultMode": 0o400}}
                    for index, stored in enumerate(secrets.values())
                ],
            ],
        },
    }


def _origin(job_id: str) -> Manifest:
    """The volume of the job that this one goes on from; both have it at once, one of them reading only."""
    claim = {"claimName": object_name(job_id), "readOnly": True}
    return {"name": "resume", "persistentVolumeClaim": claim}


def _container(job_id: str, spec: JobSpec, resources: dict[str, str]) -> Manifest:
    container = spec.container
    env = [{"name": "MAAS_JOB_NAME", "value": object_name(job_id)}, {"name": "PYTHONUNBUFFERED", "value": "1"}]
    if spec.origin:
        env += [
            {"name": "MAAS_RESUME_DIR", "value": RESUME},
            {"name": "MAAS_RESUME_STEP", "value": str(spec.origin.step)},
        ]
    env += [{"name": name, "value": value} for name, value in sorted(container.env.items())]
    secrets = [
        {"name": f"secret-{index}", "mountPath": f"{SECRETS}/{name}", "readOnly": True}
        for index, name in enumerate(secret_names(job_id, spec))
    ]
    return {
        "name": "main",
        "image": container.image,
        "command": container.command,
        "env": env,
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "checkpoints", "mountPath": CHECKPOINTS},
            *([{"name": "resume", "mountPath": RESUME, "readOnly": True}] if spec.origin else []),
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 (where frameworks look for it)
            *secrets,
        ],
    }
