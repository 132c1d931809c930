"""Keeping what was seen of a deployment's pods: their stages, how far their files have come, what they used."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.adapters.errors import OutsideError
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.calls import KubeApi
from apps.quotas import services as quotas
from apps.serving.domain.lifecycle import ReplicaSeen, Seen
from apps.serving.domain.phases import Phase
from apps.serving.models import Deployment, Replica
from apps.serving.services.fitting import pool_of
from apps.streams.services import hint

_FETCHED = re.compile(rb"fetched (\d+) of (\d+) bytes")
READ_BYTES = 4096


def keep_replicas(api: KubeApi, deployment: Deployment, seen: Seen) -> None:
    """Write what was seen of each pod; what one used that is gone is booked. Pages hear of it if anything changed."""
    known = {row.pod_uid: row for row in Replica.objects.filter(deployment=deployment)}
    fresh = {replica.uid: _values(api, deployment, replica) for replica in seen.replicas}
    gone = [row for uid, row in known.items() if uid not in fresh]
    changed = bool(gone)
    with transaction.atomic():
        for uid, values in fresh.items():
            changed |= _keep(deployment, known.get(uid), uid, values)
        _book(deployment, gone)
        Replica.objects.filter(pk__in=[row.pk for row in gone]).delete()
        if changed:
            hint(deployment.topic)


def _keep(deployment: Deployment, row: Replica | None, uid: str, values: dict[str, Any]) -> bool:
    if row is None:
        _row, made = Replica.objects.get_or_create(pod_uid=uid, defaults={"deployment": deployment, **values})
        return made
    news = {key: value for key, value in values.items() if getattr(row, key) != value}
    if "stage" in news:
        news["stage_at"] = timezone.now()
    return bool(news and Replica.objects.filter(pk=row.pk).update(**news))


def _values(api: KubeApi, deployment: Deployment, replica: ReplicaSeen) -> dict[str, Any]:
    values: dict[str, Any] = {
        "pod_name": replica.name,
        "node": replica.node,
        "ip": replica.ip,
        "stage": replica.stage,
        "ready": replica.is_ready,
        "going": replica.going,
        "reason": replica.reason.code,
        "reason_params": dict(replica.reason.params),
        "restarts": replica.restarts,
        "started_at": datetime.fromisoformat(replica.started_at) if replica.started_at else None,
    }
    if replica.stage is Phase.LOADING and replica.reason.code == "loading.files":
        values |= _fetched(api, deployment, replica.name)
    return values


def _fetched(api: KubeApi, deployment: Deployment, pod: str) -> dict[str, int]:
    """How far the files have come, from the last line that tells it; nothing where none does."""
    path = objects.path(objects.POD, deployment.placement.namespace, pod)
    try:
        text = api.pod_log(path, "fetch", tail_lines=20, limit_bytes=READ_BYTES)
    except OutsideError:
        return {}  # a log may be away for a moment; the next look asks again
    found = _FETCHED.findall(text or b"")
    return {"done": int(found[-1][0]), "total": int(found[-1][1])} if found else {}


def _book(deployment: Deployment, gone: list[Replica]) -> None:
    """The ledger: accelerators of each pod from its start until it was found to be gone."""
    size, now = deployment.size.accelerators, timezone.now()
    used = [quotas.PodUse(row.pod_uid, size, row.started_at, now) for row in gone if row.started_at and row.node]
    if used:
        quotas.book(deployment.tenant_id, pool_of(deployment.placement), deployment.subject, used)
