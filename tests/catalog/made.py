"""Models, versions, transfers and files for tests."""

from __future__ import annotations

import json
import struct
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.adapters.storage import storage
from apps.catalog import services
from apps.catalog.domain.moving import Moving
from apps.catalog.models import Blob, ModelVersion, StoredFile, Transfer
from apps.catalog.moves import restate
from apps.catalog.services.grants import new_token
from apps.tenants.models import Placement

LINEAGE: dict[str, Any] = {
    "job": {"id": "01JOB", "name": "first light", "attempt": 1, "template": "charlm"},
    "code": {"image": "maas/charlm:1", "command": ["python", "-m", "deploy.workloads.charlm"]},
    "data": {"name": "built-in text of charlm", "digest": "f" * 64},
    "parameters": {"steps": 40, "learning_rate": 0.1},
    "metrics": {"loss": {"first": 3.3, "last": 1.7, "best": 1.6, "step": 40}},
}


def registration(place: Placement, **changes: Any) -> services.Registration:
    values = {"name": "harbour", "licence": "Apache-2.0", "card": "# Harbour\n\nWrites sentences."} | changes
    return services.Registration(place.tenant_id, place.pk, "j-01job", LINEAGE, **values)


def version(author: User, place: Placement, **changes: Any) -> ModelVersion:
    """A registered version whose files are still to come."""
    return services.register(author.actor(), registration(place, **changes))


def transfer_of(version: ModelVersion) -> Transfer:
    return Transfer.objects.get(version=version)


def carrying(version: ModelVersion) -> tuple[Transfer, str]:
    """The version's transfer as its pod meets it, with the pod's token."""
    clear, digest = new_token()
    until = timezone.now() + timedelta(minutes=5)
    rows = Transfer.objects.filter(version=version)
    rows.update(phase=Moving.CARRYING, token_digest=digest, token_until=until, started_at=timezone.now())
    return rows.get(), clear


def ready(version: ModelVersion, files: dict[str, bytes] | None = None, **facts: Any) -> ModelVersion:
    """Its files have come, and say this of themselves."""
    known = {"format": "safetensors", "parameters": 7, "weight_bytes": 28} | facts
    for path, data in (files or {}).items():
        digest = sha256(data).hexdigest()
        if data:
            storage().put(digest, len(data), [data], lambda _count: None)
        Blob.objects.get_or_create(pk=digest, defaults={"size": len(data)})
        StoredFile.objects.create(version=version, path=path, digest=digest, size=len(data))
    ModelVersion.objects.filter(pk=version.pk).update(files="ready", facts=known, bytes=28)
    Transfer.objects.filter(version=version).update(phase=Moving.DONE)
    with transaction.atomic():
        restate(version.model_id)
    version.refresh_from_db()
    return version


def plan(files: dict[str, bytes]) -> dict[str, Any]:
    """What a pod says that it will bring."""
    entries = [{"path": path, "size": len(data), "sha256": sha256(data).hexdigest()} for path, data in files.items()]
    return {
        "checkpoint": {"name": "step-00000040", "step": 40, "saved_at": "2026-11-30T00:00:00+00:00"},
        "files": entries,
    }


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]], **metadata: str) -> bytes:
    """A well-formed file of these tensors (dtype, shape, bytes)."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    body = b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body
