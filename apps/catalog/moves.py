"""The writers of what follows from other rows: a model's place in lists, and the phase of a transfer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Greatest, Now
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.catalog.domain.moving import ENDED, Moving
from apps.catalog.domain.stages import Files, Stage, best
from apps.catalog.models import Blob, ModelVersion, RegisteredModel, StoredFile, Transfer
from apps.notices import services as notices
from apps.streams.services import hint

FILES_CAME = audit.action(
    "model.files-came", _("The files of {name} v{number} are in the portal: {count} files"), name=_("Files have come")
)
FILES_FAILED = audit.action(
    "model.files-failed", _("The files of {name} v{number} could not be brought: {reason}"), name=_("Files do not come")
)
SYSTEM = Actor.system("catalog")
READY = notices.kind(
    "model.ready", _("{name} v{number} is ready: its files are in the portal"), name=_("A model is ready"),
    icon="package", tone="green",
)  # fmt: skip
FAILED = notices.kind(
    "model.failed", _("The files of {name} v{number} could not be brought"), name=_("A model's files do not come"),
    icon="alert-triangle", tone="red",
)  # fmt: skip

ALLOWED: dict[Moving, frozenset[Moving]] = {
    Moving.ASKED: frozenset({Moving.CARRYING, Moving.FAILED, Moving.STOPPED}),
    Moving.CARRYING: frozenset({Moving.ASKED, Moving.READING, Moving.FAILED, Moving.STOPPED}),
    Moving.READING: frozenset({Moving.DONE, Moving.FAILED, Moving.STOPPED}),
}


class Stale(Exception):
    """Somebody else moved it first; look again."""


@dataclass(frozen=True)
class Why:
    """A reason by its code, with numbers and texts for its sentence."""

    code: str = ""
    params: dict[str, Any] = field(default_factory=dict)


def restate(model_id: str) -> None:
    """Make a model's place in lists follow from its versions. Call it in the transaction that changed one."""
    model = RegisteredModel.objects.for_system().select_for_update().get(pk=model_id)
    versions = list(ModelVersion.objects.for_system().filter(model=model).order_by("-number"))
    stage = best({Stage(version.stage) for version in versions})
    shown = next((version for version in versions if version.stage == stage), None)
    facts = shown.facts if shown else {}
    RegisteredModel.objects.for_system().filter(pk=model.pk).update(
        stage=stage,
        format=str(facts.get("format") or ""),
        bytes=shown.bytes if shown else 0,
        weight_bytes=facts.get("weight_bytes"),
        parameters=facts.get("parameters"),
        changed_at=Now(),
    )
    hint(model.topic)
    hint("models.0")


@transaction.atomic
def move(transfer: Transfer, to: Moving, why: Why | None = None) -> None:
    """Write the phase by conditional UPDATE, with what follows for the version, audit and hint; called again for the
    same phase it only changes the reason. Raises Stale, ValueError.
    """
    old, why = transfer.state, why or Why()
    if to is old and (why.code, why.params) == (transfer.reason, transfer.reason_params):
        return
    if to is not old and to not in ALLOWED.get(old, ()):
        raise ValueError(f"A transfer cannot go from {old} to {to}.")
    values: dict[str, Any] = {"phase": to, "reason": why.code, "reason_params": why.params}
    if to in ENDED:
        values |= {"ended_at": Now(), "token_digest": "", "token_until": None, "due_at": Now()}
    if to is Moving.CARRYING and transfer.started_at is None:
        values["started_at"] = timezone.now()
    if not Transfer.objects.filter(pk=transfer.pk, phase=old).update(**values):
        raise Stale(transfer.pk)
    if transfer.version_id is not None:
        _tell(transfer, to, why)
    transfer.refresh_from_db()


def _tell(transfer: Transfer, to: Moving, why: Why) -> None:
    version = ModelVersion.objects.for_system().select_related("model").get(pk=transfer.version_id)
    told: dict[str, Any] = {"name": version.model.name, "number": version.number}
    rows = ModelVersion.objects.for_system().filter(pk=version.pk)
    if to is Moving.DONE:
        rows.update(files=Files.READY)
        count = StoredFile.objects.filter(version=version).count()
        audit.record(FILES_CAME, SYSTEM, f"model:{version.model_id}", tenant_id=version.tenant_id, count=count, **told)
        restate(version.model_id)
    elif to is Moving.FAILED:
        rows.update(files=Files.FAILED)
        target = f"model:{version.model_id}"
        audit.record(FILES_FAILED, SYSTEM, target, tenant_id=version.tenant_id, reason=why.code, **told)
        hint("models.0")
    if to in (Moving.DONE, Moving.FAILED):
        link = f"{reverse('catalog:model', args=[version.model_id])}?version={version.number}"
        kind = READY if to is Moving.DONE else FAILED
        notices.tell([version.author_id], kind, link=link, tenant_id=version.tenant_id, **told)
    hint(version.model.topic)


def forget_unused(digests: set[str]) -> None:
    """Blobs that no file has any more are due to be removed, unless some transfer has just reserved them. Call it in
    the transaction that took the files away."""
    used = StoredFile.objects.filter(digest__in=digests).values("digest")
    Blob.objects.filter(Q(pk__in=digests) & ~Q(pk__in=used)).update(due_at=Greatest("due_at", Now()))
