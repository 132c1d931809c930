"""The use-cases of models: the one door for pages, REST, and the apps that make and use models.

For the app that makes them: `register(actor, Registration(…)) -> version`. For the app that serves them:
`version_visible(actor, version_id)`, `files_of(version)`, `version.facts`, `register_use(kind, find)`, and for its pods
`open_transfer(version_id, subject=…) -> token` and `close_transfers(subject)`.
"""

from apps.catalog.domain.naming import Fault, Invalid
from apps.catalog.domain.stages import Files, Stage, Visibility
from apps.catalog.models import ModelVersion, RegisteredModel, StoredFile
from apps.catalog.services.grants import NotReady, close_transfers, open_transfer
from apps.catalog.services.reading import (
    content,
    files_of,
    transfer_for,
    version_visible,
    versions_of,
    versions_visible,
)
from apps.catalog.services.registering import Registration, bring_again, register
from apps.catalog.services.uses import Use, register_use, uses_of

__all__ = [
    "Fault",
    "Files",
    "Invalid",
    "ModelVersion",
    "NotReady",
    "RegisteredModel",
    "Registration",
    "Stage",
    "StoredFile",
    "Use",
    "Visibility",
    "bring_again",
    "close_transfers",
    "content",
    "files_of",
    "open_transfer",
    "register",
    "register_use",
    "transfer_for",
    "uses_of",
    "version_visible",
    "versions_of",
    "versions_visible",
]
