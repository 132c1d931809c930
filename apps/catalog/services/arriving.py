"""Taking what a transfer's pod brings: first what there is, then file by file, then its word that this was all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.broker import wake
from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.storage import Mismatch, storage
from apps.catalog import moves
from apps.catalog.domain.moving import Moving
from apps.catalog.domain.naming import PlannedFile, read_plan
from apps.catalog.models import Blob, ModelVersion, StoredFile, Transfer
from apps.catalog.moves import Why
from apps.streams.services import hint

TOKEN = timedelta(hours=1)
"""A transfer's token lives so long after the last file that came."""
RESERVED = timedelta(days=1)
"""No file takes longer to come."""
TELL_SECONDS = 1.0
_REPORTED = ("no-checkpoint", "checkpoint-torn", "no-volume-content", "storage-full", "too-large", "refused")
"""Reasons that a pod may give for giving up."""


class Unfinished(Exception):
    """The pod says that this was all, and files of its plan are missing."""

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"{len(missing)} files are missing")
        self.missing = missing


@transaction.atomic
def accept_plan(transfer: Transfer, document: Mapping[str, Any]) -> list[str]:
    """Note which files will come; returns the paths of those that must. Raises Invalid, Stale.

    A file is not asked for when its bytes came before for a version of the same tenant. For those of others it is asked
    for, even where storage has them: nobody gets bytes by knowing their digest.
    """
    files = read_plan(document.get("files"), settings.UPLOAD_LIMIT)
    version = ModelVersion.objects.for_system().select_for_update().get(pk=transfer.version_id)
    _note_that_it_came(transfer)
    _require_carrying(transfer)
    wanted = {(file.path, file.digest) for file in files}
    stale = [old for old in StoredFile.objects.filter(version=version) if (old.path, old.digest) not in wanted]
    StoredFile.objects.filter(pk__in=[old.pk for old in stale]).delete()
    moves.forget_unused({old.digest for old in stale})
    own = StoredFile.objects.filter(version__tenant_id=version.tenant_id, digest__in={file.digest for file in files})
    known = set(own.values_list("digest", "size"))
    for file in files:
        if (file.digest, file.size) in known:
            _keep(version, file)
    found = document.get("checkpoint")
    checkpoint = _checkpoint(found if isinstance(found, dict) else {})
    plan = {"checkpoint": checkpoint, "files": [_entry(file) for file in files]}
    total = sum(file.size for file in files)
    Transfer.objects.filter(pk=transfer.pk).update(plan=plan, total=total, token_until=timezone.now() + TOKEN)
    ModelVersion.objects.for_system().filter(pk=version.pk).update(
        bytes=total, lineage={**version.lineage, "checkpoint": checkpoint}
    )
    _count(transfer)
    hint(version.model.topic)
    there = set(StoredFile.objects.filter(version=version).values_list("path", flat=True))
    return [file.path for file in files if file.path not in there]


def receive(transfer: Transfer, path: str, chunks: Iterable[bytes]) -> None:
    """Take one file of the plan. Raises NotFound for another path, Mismatch, Full, Unavailable, Stale.

    The same file again is read to its end and changes nothing.
    """
    entry = next((entry for entry in transfer.planned() if entry["path"] == path), None)
    if entry is None:
        raise NotFound("The plan has no file of this path.", code=404)
    file = PlannedFile(entry["path"], entry["size"], entry["sha256"])
    _reserve(file)
    storage().put(file.digest, file.size, chunks, _Progress(transfer))
    with transaction.atomic():
        version = ModelVersion.objects.for_system().select_for_update().get(pk=transfer.version_id)
        _require_carrying(transfer)
        _keep(version, file)
        Transfer.objects.filter(pk=transfer.pk).update(token_until=timezone.now() + TOKEN)
        _count(transfer)
        hint(version.model.topic)


@transaction.atomic
def finish(transfer: Transfer) -> None:
    """Every file has come; what their headers say is read in the background. Raises Unfinished, Stale."""
    there = set(StoredFile.objects.filter(version_id=transfer.version_id).values_list("path", "digest"))
    wanted = {(entry["path"], entry["sha256"]): entry["path"] for entry in transfer.planned()}
    if not wanted or (missing := [path for key, path in wanted.items() if key not in there]):
        raise Unfinished(missing if wanted else [])
    moves.move(transfer, Moving.READING)
    Transfer.objects.filter(pk=transfer.pk).update(token_digest="", token_until=None, due_at=Now())
    wake("catalog.reconcile_transfer", transfer.pk)


def give_up(transfer: Transfer, code: str, text: str) -> None:
    """The pod says why it brings nothing. Raises Stale."""
    known = code if code in _REPORTED else "pod-ended"
    clean = "".join(c if c.isprintable() else " " for c in text)[:300]
    moves.move(transfer, Moving.FAILED, Why(known, {"text": clean}))
    wake("catalog.reconcile_transfer", transfer.pk)


class _Progress:
    """Writes how much has come while a large file comes, at most once a second; pages hear of it."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer, self._base = transfer, _stored(transfer)
        self._told_at = time.monotonic()

    def __call__(self, count: int) -> None:
        now = time.monotonic()
        if now - self._told_at < TELL_SECONDS:
            return
        self._told_at = now
        with transaction.atomic():
            received = min(self._base + count, self._transfer.total)
            until = timezone.now() + TOKEN
            Transfer.objects.filter(pk=self._transfer.pk).update(received=received, token_until=until)
            if version := self._transfer.version:
                hint(version.model.topic)


def _note_that_it_came(transfer: Transfer) -> None:
    """A worker that died between sending the pod and saying so left that to the pod."""
    row = Transfer.objects.select_for_update().get(pk=transfer.pk)
    if row.state is Moving.ASKED:
        moves.move(row, Moving.CARRYING)


def _require_carrying(transfer: Transfer) -> None:
    """What was stopped or has ended meanwhile takes nothing more."""
    if not Transfer.objects.select_for_update().filter(pk=transfer.pk, phase=Moving.CARRYING).exists():
        raise moves.Stale(transfer.pk)


@transaction.atomic
def _reserve(file: PlannedFile) -> None:
    """Keep what may already lie under a digest from being removed while its bytes come; what comes and is never noted
    is removed after that time. Raises Unavailable while it is being removed, Mismatch."""
    until = timezone.now() + RESERVED
    Blob.objects.get_or_create(pk=file.digest, defaults={"size": file.size, "due_at": until})
    blob = Blob.objects.select_for_update().get(pk=file.digest)
    if blob.removing:
        raise Unavailable("These bytes are just being removed; send them again.", system="storage")
    if blob.size != file.size:
        raise Mismatch("These bytes are known with another size.", code=422)
    Blob.objects.filter(pk=blob.pk).update(due_at=until)


def _keep(version: ModelVersion, file: PlannedFile) -> None:
    """Note a file of a version whose bytes lie in storage, reserved or in use."""
    Blob.objects.filter(pk=file.digest).update(due_at=None)
    about = {"digest": file.digest, "size": file.size}
    StoredFile.objects.update_or_create(version=version, path=file.path, defaults=about)


def _stored(transfer: Transfer) -> int:
    found = StoredFile.objects.filter(version_id=transfer.version_id).aggregate(all=Sum("size"))
    return int(found["all"] or 0)


def _count(transfer: Transfer) -> None:
    Transfer.objects.filter(pk=transfer.pk).update(received=_stored(transfer))


def _entry(file: PlannedFile) -> dict[str, Any]:
    return {"path": file.path, "size": file.size, "sha256": file.digest}


def _checkpoint(found: Mapping[str, Any]) -> dict[str, Any]:
    """What the pod says of the checkpoint it found: `name`, `step`, `saved_at`."""
    name, step, saved_at = found.get("name"), found.get("step"), found.get("saved_at")
    return {
        "name": name[:120] if isinstance(name, str) and name.isprintable() else "",
        "step": step if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 2**53 else None,
        "saved_at": saved_at[:40] if isinstance(saved_at, str) and saved_at.isprintable() else "",
    }
