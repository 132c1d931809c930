"""Versions with files in storage, and deployments of them, for tests."""

from __future__ import annotations

import json
from typing import Any

from apps.accounts.models import User
from apps.catalog import services as catalog
from apps.catalog.models import ModelVersion, RegisteredModel
from apps.serving import services
from apps.serving.models import Deployment
from apps.tenants.models import Placement

FACTS: dict[str, Any] = {"format": "charlm", "parameters": 22_000, "bytes": 360_000, "context": 12}


def version(author: User, place: Placement, **changes: Any) -> ModelVersion:
    """A version whose files are in storage, as far as its row says."""
    values = {"name": "harbour", "facts": FACTS, "files": catalog.Files.READY, **changes}
    model, _new = RegisteredModel.objects.get_or_create(
        tenant=place.tenant, name=values.pop("name"), defaults={"licence": "Apache-2.0", "created_by": author}
    )
    model.versions += 1
    model.save(update_fields=["versions"])
    return ModelVersion.objects.create(
        model=model, tenant=place.tenant, number=model.versions, author=author, bytes=values["facts"].get("bytes", 0),
        **values,
    )  # fmt: skip


def request(version: ModelVersion, **changes: Any) -> services.Request:
    values = {"tenant_id": version.tenant_id, "version_id": version.pk, "name": "harbour chat", "shape": "1-small"}
    return services.Request(**{**values, **changes})


def deployment(owner: User, version: ModelVersion, **changes: Any) -> Deployment:
    """As the button leaves it, with its hold."""
    return services.deploy(owner.actor(), request=request(version, **changes))


def error_of(body: bytes) -> str:
    """The code in the body of a refusal, in the shape of OpenAI's errors."""
    return str(json.loads(body)["error"]["code"])
