"""The use-cases of models: the one door for pages, REST, and the apps that make and use models.

For the app that makes them: `register(actor, Registration(…)) -> version`. For the app that serves them:
`version_visible(actor, version_id)`, `files_of(version)`, `version.facts`, `register_use(kind, find)`, and for its pods
`open_transfer(version_id, subject=…) -> token` and `close_transfers(subject)`.
"""

from apps.catalog.domain.naming import Fault, Invalid, tags_of
from apps.catalog.domain.stages import Files, Stage, Visibility
from apps.catalog.models import ModelVersion, RegisteredModel, StoredFile
from apps.catalog.services.card import html_of
from apps.catalog.services.editing import InUse, Said, WrongName, delete_model, edit_model, note_download
from apps.catalog.services.grants import NotReady, close_transfers, open_transfer
from apps.catalog.services.reading import (
    content,
    file_of,
    files_of,
    models_of,
    stages_of,
    transfer_for,
    version_visible,
    versions_of,
    versions_visible,
)
from apps.catalog.services.registering import Registration, bring_again, register
from apps.catalog.services.staging import NotNow, acts_on, move_stage, waiting_for
from apps.catalog.services.uses import Use, register_use, uses_of
from apps.catalog.services.words import fault_text, form_context

__all__ = [
    "Fault",
    "Files",
    "InUse",
    "Invalid",
    "ModelVersion",
    "NotNow",
    "NotReady",
    "RegisteredModel",
    "Registration",
    "Said",
    "Stage",
    "StoredFile",
    "Use",
    "Visibility",
    "WrongName",
    "acts_on",
    "bring_again",
    "close_transfers",
    "content",
    "delete_model",
    "edit_model",
    "fault_text",
    "file_of",
    "files_of",
    "form_context",
    "html_of",
    "models_of",
    "move_stage",
    "note_download",
    "open_transfer",
    "register",
    "register_use",
    "stages_of",
    "tags_of",
    "transfer_for",
    "uses_of",
    "version_visible",
    "versions_of",
    "versions_visible",
    "waiting_for",
]
