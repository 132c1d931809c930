"""Registering a version of a model from what a job has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.catalog import moves
from apps.catalog.domain import naming
from apps.catalog.domain.naming import Fault, Invalid
from apps.catalog.domain.stages import Files, Visibility
from apps.catalog.models import ModelVersion, RegisteredModel, Transfer

REGISTERED = audit.action(
    "model.registered", _("{actor} registered {name} v{number} from the job {job}"), name=_("Register a model")
)
RETRIED = audit.action(
    "model.files-asked", _("{actor} asked again for the files of {name} v{number}"), name=_("Bring files again")
)

KEY_LIMIT = 64


@dataclass(frozen=True)
class Registration:
    """What is registered. With `model_id` it is that model's next version, else version 1 of a new one, and `name`,
    `licence`, `visibility`, `card` and `tags` are the model's. `lineage` is as in `ModelVersion`.

    `claim` is the volume claim in the tenant's `placement_id` that holds the checkpoint; with `until_step`, later ones
    do not count. The same `key` of the same
    person again (a second press of a button) finds the same version.
    """

    tenant_id: int
    placement_id: int
    claim: str
    lineage: Mapping[str, Any]
    until_step: int | None = None
    model_id: str = ""
    name: str = ""
    licence: str = ""
    visibility: str = Visibility.TENANT
    card: str = ""
    tags: list[str] = field(default_factory=list)
    note: str = ""
    key: str = ""

    def faults(self) -> list[Fault]:
        """What is not right in it, as far as it says for itself."""
        found = naming.one_line("note", self.note, naming.NOTE_LIMIT, needed=False)
        if self.model_id:
            return found if self.model_id.isalnum() else [*found, Fault("model", "unknown-model")]
        found += naming.name_faults(self.name) + naming.one_line("licence", self.licence, naming.LICENCE_LIMIT)
        found += naming.card_faults(self.card) + naming.tag_faults(self.tags)
        return found if self.visibility in list(Visibility) else [*found, Fault("visibility", "choice")]


@audit.use_case(REGISTERED)
def register(actor: Actor, registration: Registration) -> ModelVersion:
    """Register a version; its files are brought in the background. Raises Denied, Invalid with every fault."""
    actor.require(Permission.MODEL_REGISTER, registration.tenant_id, target=f"tenant:{registration.tenant_id}")
    if not registration.key.isprintable() or len(registration.key) > KEY_LIMIT:
        raise Invalid([Fault("key", "unprintable")])
    if known := _same_request(actor, registration):
        return known
    if faults := registration.faults():
        raise Invalid(faults)
    model = _next_of(actor, registration) if registration.model_id else _new_model(actor, registration)
    RegisteredModel.objects.for_system().filter(pk=model.pk).update(versions=F("versions") + 1)
    model.refresh_from_db()
    version = ModelVersion.objects.create(
        model=model,
        tenant_id=model.tenant_id,
        number=model.versions,
        note=registration.note.strip(),
        author_id=actor.user_pk,
        lineage=dict(registration.lineage),
        key=registration.key,
    )
    source: dict[str, Any] = {"claim": registration.claim}
    if registration.until_step is not None:
        source["until_step"] = registration.until_step
    transfer = Transfer.objects.create(version=version, placement_id=registration.placement_id, source=source)
    job = str(registration.lineage.get("job", {}).get("name", ""))
    target = f"model:{model.pk}"
    told: dict[str, Any] = {"name": model.name, "number": version.number, "job": job}
    audit.record(REGISTERED, actor, target, tenant_id=model.tenant_id, **told)
    moves.restate(model.pk)
    wake("catalog.reconcile_transfer", transfer.pk)
    return version


def _same_request(actor: Actor, registration: Registration) -> ModelVersion | None:
    if not registration.key:
        return None
    with connection.cursor() as cursor:  # two requests with one key take turns
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"{actor.user_pk}:{registration.key}"])
    known = ModelVersion.objects.visible_to(actor).filter(author__id=actor.user_pk, key=registration.key)
    return known.select_related("model").first()


def _next_of(actor: Actor, registration: Registration) -> RegisteredModel:
    """The model that gets another version; its row is locked, so that numbers are given one at a time."""
    found = RegisteredModel.objects.visible_to(actor).filter(tenant_id=registration.tenant_id)
    model = found.select_for_update().filter(pk=registration.model_id).first()
    if model is None:
        raise Invalid([Fault("model", "unknown-model")])
    return model


def _new_model(actor: Actor, registration: Registration) -> RegisteredModel:
    model = RegisteredModel(
        tenant_id=registration.tenant_id,
        name=registration.name.strip(),
        licence=registration.licence.strip(),
        visibility=registration.visibility,
        card=registration.card,
        tags=list(registration.tags),
        created_by_id=actor.user_pk,
    )
    try:
        with transaction.atomic():
            model.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid([Fault("name", "name-taken", {"name": model.name})]) from error
    return model


@audit.use_case(RETRIED)
def bring_again(actor: Actor, *, version: ModelVersion) -> Transfer:
    """Try once more to bring the files of a version; what came before stays. While a transfer lives, it is that one."""
    actor.require(Permission.MODEL_REGISTER, version.tenant_id, target=f"model:{version.model_id}")
    version = ModelVersion.objects.for_system().select_for_update().select_related("model").get(pk=version.pk)
    last = Transfer.objects.filter(version=version).order_by("-pk").first()
    if version.files != Files.FAILED or last is None:
        if last is None:
            raise Transfer.DoesNotExist
        return last
    ModelVersion.objects.for_system().filter(pk=version.pk).update(files=Files.COMING)
    transfer = Transfer.objects.create(version=version, placement_id=last.placement_id, source=last.source)
    told: dict[str, Any] = {"name": version.model.name, "number": version.number}
    audit.record(RETRIED, actor, f"model:{version.model_id}", tenant_id=version.tenant_id, **told)
    moves.restate(version.model_id)
    wake("catalog.reconcile_transfer", transfer.pk)
    return transfer
