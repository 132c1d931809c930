"""Changing what is said of a model, and deleting one that nobody uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.catalog import moves
from apps.catalog.domain import naming
from apps.catalog.domain.moving import ENDED
from apps.catalog.domain.naming import Fault, Invalid
from apps.catalog.domain.stages import Visibility
from apps.catalog.models import ModelVersion, RegisteredModel, StoredFile, Transfer
from apps.catalog.services.uses import Use, uses_of
from apps.streams.services import hint

EDITED = audit.action("model.edited", _("{actor} changed {fields} of the model {name}"), name=_("Change a model"))
DELETED = audit.action(
    "model.deleted",
    ngettext_lazy(
        "{actor} deleted the model {name} with {versions} version",
        "{actor} deleted the model {name} with {versions} versions",
        "versions",
    ),
    name=_("Delete a model"),
)
DOWNLOADED = audit.action(
    "model.downloaded", _("{actor} downloaded {path} of {name} v{number}"), name=_("Download a model's file")
)


class InUse(Exception):
    """The model cannot be deleted: these need it."""

    def __init__(self, uses: list[Use]) -> None:
        super().__init__(f"{len(uses)} need it")
        self.uses = uses


class WrongName(Exception):
    """The name that was typed to confirm is not the model's."""


@dataclass(frozen=True)
class Said:
    """What people say of a model."""

    name: str
    licence: str
    visibility: str
    card: str = ""
    tags: list[str] = field(default_factory=list)

    def faults(self) -> list[Fault]:
        found = naming.name_faults(self.name) + naming.one_line("licence", self.licence, naming.LICENCE_LIMIT)
        found += naming.card_faults(self.card) + naming.tag_faults(self.tags)
        return found if self.visibility in list(Visibility) else [*found, Fault("visibility", "choice")]


@audit.use_case(EDITED)
def edit_model(actor: Actor, *, model: RegisteredModel, said: Said) -> RegisteredModel:
    """Change what is said; versions stay as they are. Raises Denied, Invalid with every fault."""
    actor.require(Permission.MODEL_EDIT, model.tenant_id, target=f"model:{model.pk}")
    if faults := said.faults():
        raise Invalid(faults)
    wanted = {
        "name": said.name.strip(), "licence": said.licence.strip(), "visibility": str(said.visibility),
        "card": said.card, "tags": said.tags,
    }  # fmt: skip
    model = RegisteredModel.objects.for_system().select_for_update().get(pk=model.pk)
    changed = {key: value for key, value in wanted.items() if getattr(model, key) != value}
    if not changed:
        return model
    try:
        with transaction.atomic():
            RegisteredModel.objects.for_system().filter(pk=model.pk).update(**changed, changed_at=Now())
    except IntegrityError as error:
        raise Invalid([Fault("name", "name-taken", {"name": said.name})]) from error
    target = f"model:{model.pk}"
    audit.record(EDITED, actor, target, tenant_id=model.tenant_id, name=said.name.strip(), fields=sorted(changed))
    hint(model.topic)
    hint("models.0")
    model.refresh_from_db()
    return model


@audit.use_case(DELETED)
def delete_model(actor: Actor, *, model: RegisteredModel, typed: str) -> None:
    """Delete a model with all its versions; bytes that nobody else has go too. Raises Denied, InUse, WrongName.

    Transfers that are under way stop, and what they made in a cluster is taken away.
    """
    actor.require(Permission.MODEL_EDIT, model.tenant_id, target=f"model:{model.pk}")
    model = RegisteredModel.objects.for_system().select_for_update().get(pk=model.pk)
    if typed.strip() != model.name:
        raise WrongName
    ids = set(ModelVersion.objects.for_system().filter(model=model).values_list("pk", flat=True))
    if uses := uses_of(ids):
        raise InUse(uses)
    digests = set(StoredFile.objects.filter(version_id__in=ids).values_list("digest", flat=True))
    Transfer.objects.filter(version_id__in=ids).exclude(phase__in=ENDED).update(due_at=Now())
    told: dict[str, Any] = {"name": model.name, "versions": len(ids)}
    audit.record(DELETED, actor, f"model:{model.pk}", tenant_id=model.tenant_id, **told)
    topic = model.topic
    model.delete()
    moves.forget_unused(digests)
    hint(topic)
    hint("models.0")


@audit.use_case(DOWNLOADED)
def note_download(actor: Actor, *, version: ModelVersion, file: StoredFile) -> None:
    """A person takes a file of a version they may see. Raises Denied."""
    tenant = version.tenant_id if version.tenant_id in actor.tenants else None
    actor.require(Permission.MODEL_VIEW, tenant, target=f"model:{version.model_id}")
    told: dict[str, Any] = {"name": version.model.name, "number": version.number, "path": file.path}
    audit.record(DOWNLOADED, actor, f"model:{version.model_id}", tenant_id=version.tenant_id, **told)
