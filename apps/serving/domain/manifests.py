"""What the cluster is sent, built as dicts from a deployment's plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.serving.domain.engines import Engine, Serving
from apps.serving.domain.fit import Shape

Manifest = dict[str, Any]

LABEL = "maas.portal/deployment"
TENANT_LABEL = "maas.portal/tenant"
MARK = "maas.portal/wanted"
"""An annotation with the digest of what was applied: a look compares it with what is wanted now."""
QUEUE = "scheduling.volcano.sh/queue-name"
MODEL = "/model"
TICKET = "/run/maas/transfer"
PORT_NAME = "http"
PROBE_SECONDS = 2
GRACE_SECONDS = 30
"""For answers under way; requests stop coming before."""


@dataclass(frozen=True)
class Place:
    """Where a deployment goes: the tenant's namespace and queue in one cluster."""

    namespace: str
    queue: str
    tenant: str
    accelerator: str


@dataclass(frozen=True)
class Plan:
    """All that the objects are made of. `model` is the name requests ask for."""

    deployment_id: str
    name: str
    model: str
    engine: Engine
    shape: Shape
    facts: Mapping[str, Any]
    replicas: int
    place: Place


def object_name(deployment_id: str) -> str:
    """The name of everything a deployment owns in its cluster."""
    return f"d-{deployment_id.lower()}"


def ticket_name(deployment_id: str) -> str:
    """The Secret with which its pods fetch the model's files."""
    return f"{object_name(deployment_id)}-transfer"


def labels(plan: Plan) -> dict[str, str]:
    return {
        LABEL: plan.deployment_id,
        TENANT_LABEL: plan.place.tenant,
        "app.kubernetes.io/managed-by": "maas-portal",
    }


def manifests(plan: Plan) -> list[Manifest]:
    """The Service and the Deployment, in the order they are applied. The Secret of the transfer is apart: it is renewed
    while the others stand."""
    service, deployment = _service(plan), _deployment(plan)
    deployment["metadata"]["annotations"][MARK] = mark(plan)
    return [service, deployment]


def mark(plan: Plan) -> str:
    """The digest of what is wanted of this plan."""
    text = json.dumps([_service(plan), _deployment(plan)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def ticket(plan: Plan, ticket: Mapping[str, str]) -> Manifest:
    """The Secret: what a pod shows to the portal, and for which files."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ticket_name(plan.deployment_id),
            "namespace": plan.place.namespace,
            "labels": labels(plan),
        },
        "type": "Opaque",
        "stringData": dict(ticket),
    }


def _service(plan: Plan) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": object_name(plan.deployment_id),
            "namespace": plan.place.namespace,
            "labels": labels(plan),
        },
        "spec": {
            "selector": {LABEL: plan.deployment_id},
            "ports": [{"name": PORT_NAME, "port": 80, "targetPort": plan.engine.port, "protocol": "TCP"}],
        },
    }


def _deployment(plan: Plan) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": object_name(plan.deployment_id),
            "namespace": plan.place.namespace,
            "labels": labels(plan),
            "annotations": {"maas.portal/name": plan.name},
        },
        "spec": {
            "replicas": plan.replicas,
            "selector": {"matchLabels": {LABEL: plan.deployment_id}},
            # A new replica beside the old ones would need accelerators that the quota does not have.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                # The queue's limit holds for the pods of a Deployment as well, when they name it.
                "metadata": {"labels": labels(plan), "annotations": {QUEUE: plan.place.queue}},
                "spec": _pod(plan),
            },
        },
    }


def _pod(plan: Plan) -> Manifest:
    return {
        "schedulerName": "volcano",
        "serviceAccountName": "runner",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_fetch(plan)],
        "containers": [_server(plan)],
        "volumes": [
            {"name": "model", "emptyDir": {}},
            {"name": "transfer", "secret": {"secretName": ticket_name(plan.deployment_id), "defaultMode": 0o440}},
        ],
    }


def _fetch(plan: Plan) -> Manifest:
    small = {"cpu": "500m", "memory": "256Mi"}
    return {
        "name": "fetch",
        "image": plan.engine.image,
        "command": plan.engine.fetch(TICKET, MODEL),
        "resources": {"requests": small, "limits": small},
        "securityContext": _LOCKED,
        "volumeMounts": [
            {"name": "model", "mountPath": MODEL},
            {"name": "transfer", "mountPath": TICKET, "readOnly": True},
        ],
    }


def _server(plan: Plan) -> Manifest:
    engine, shape = plan.engine, plan.shape
    amounts = {"cpu": str(shape.cpus), "memory": f"{shape.memory_gib}Gi"}
    amounts[plan.place.accelerator] = str(shape.accelerators)
    port = engine.port
    tries = max(1, -(-engine.startup_seconds(plan.facts) // PROBE_SECONDS))
    return {
        "name": "main",
        "image": engine.image,
        "command": engine.command(Serving(MODEL, port, plan.model)),
        "env": [
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            # Where a server listens: its own address, and not every one of the machine's.
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": port, "protocol": "TCP"}],
        "resources": {"requests": amounts, "limits": amounts},
        # Sized by the model: how long it may take to read it. Then one real token decides whether requests come.
        "startupProbe": _probe(engine.started, port, failures=tries),
        "readinessProbe": _probe(engine.ready, port, failures=3, timeout=10),
        "livenessProbe": _probe(engine.started, port, failures=6, timeout=10, period=10),
        "securityContext": _LOCKED,
        "volumeMounts": [{"name": "model", "mountPath": MODEL, "readOnly": True}],
    }


_LOCKED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _probe(path: str, port: int, *, failures: int, timeout: int = 3, period: int = PROBE_SECONDS) -> Manifest:
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }
