"""What other apps, pages and REST are shown of models."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet

from apps.accounts.types import Actor
from apps.adapters.storage import storage
from apps.catalog.models import ModelVersion, ModelVersionQuerySet, RegisteredModel, StageChange, StoredFile, Transfer


def version_visible(actor: Actor, version_id: str) -> ModelVersion | None:
    """A version this actor may see, with its model and tenant; None for what is not there or not theirs to see.

    `version.facts` is what its files' headers say (see `ModelVersion`), `version.is_ready` whether its files are there,
    `version.stage` how far people have judged it.
    """
    found = ModelVersion.objects.visible_to(actor).filter(pk=version_id)
    return found.select_related("model", "tenant", "author").first()


def versions_visible(actor: Actor) -> ModelVersionQuerySet:
    """Every version this actor may see."""
    return ModelVersion.objects.visible_to(actor)


def versions_of(actor: Actor, model: RegisteredModel) -> ModelVersionQuerySet:
    """The versions of a model that this actor may see, newest first."""
    found = ModelVersion.objects.visible_to(actor).filter(model=model)
    return found.select_related("author").order_by("-number")


def models_of(actor: Actor, tenant_id: int) -> list[RegisteredModel]:
    """A tenant's models that may get another version, the one changed last first."""
    found = RegisteredModel.objects.visible_to(actor).filter(tenant_id=tenant_id)
    return list(found.order_by("-changed_at")[:200])


def files_of(version: ModelVersion) -> QuerySet[StoredFile]:
    """The files of a version by path: `path`, `digest` (SHA-256 in hex), `size` in bytes."""
    return StoredFile.objects.filter(version=version)


def file_of(version: ModelVersion, path: str) -> StoredFile | None:
    """The file of that path; no file has a NUL in its path, and the database takes none."""
    return None if "\0" in path else files_of(version).filter(path=path).first()


def content(file: StoredFile, start: int = 0) -> Iterator[bytes]:
    """The bytes of a file from `start`. Raises Unavailable, NotFound."""
    return storage().read(file.digest, start)


def transfer_for(version: ModelVersion) -> Transfer | None:
    """The newest attempt to bring a version's files."""
    return Transfer.objects.filter(version=version).order_by("-pk").first()


def stages_of(version: ModelVersion) -> QuerySet[StageChange]:
    """The history of a version's stage, newest first."""
    return StageChange.objects.filter(version=version).select_related("by")
