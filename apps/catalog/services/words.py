"""Every code of this app in words."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from apps.catalog.domain.moving import Moving
from apps.catalog.domain.naming import LICENCES, Fault
from apps.catalog.domain.stages import Stage, Visibility
from apps.catalog.models import Transfer

STAGES: dict[Stage, Promise] = {
    Stage.DRAFT: pgettext_lazy("stage of a model", "Draft"),
    Stage.CANDIDATE: pgettext_lazy("stage of a model", "Candidate"),
    Stage.APPROVED: pgettext_lazy("stage of a model", "Approved"),
    Stage.WITHDRAWN: pgettext_lazy("stage of a model", "Withdrawn"),
}
STAGE_LOOKS: dict[Stage, tuple[str, str]] = {
    Stage.DRAFT: ("grey", "pencil"),
    Stage.CANDIDATE: ("amber", "flask"),
    Stage.APPROVED: ("green", "circle-check"),
    Stage.WITHDRAWN: ("grey", "archive"),
}
"""Tone and icon of each."""

ACTS: dict[str, Promise] = {
    "propose": gettext_lazy("Propose for approval"),
    "approve": gettext_lazy("Approve version"),
    "send-back": gettext_lazy("Send back"),
    "withdraw": gettext_lazy("Withdraw version"),
    "bring-back": gettext_lazy("Bring back as draft"),
}

VISIBILITIES: dict[Visibility, Promise] = {
    Visibility.TENANT: gettext_lazy("This tenant only"),
    Visibility.PUBLIC: gettext_lazy("Every tenant, once a version is approved"),
}

FORMATS: dict[str, Promise | str] = {
    "charlm": gettext_lazy("charlm checkpoint"),
    "safetensors": "safetensors",
    "gguf": "GGUF",
    "onnx": "ONNX",
    "numpy": "NumPy",
    "pickle": gettext_lazy("pickle, not opened"),
    "unknown": gettext_lazy("unknown format"),
}

OBSTACLES: dict[str, Promise] = {
    "own": gettext_lazy("Nobody approves what they registered themselves. Ask another team admin."),
    "files-missing": gettext_lazy("Its files are not in the portal yet."),
    "files-faulty": gettext_lazy("A file is not what it says it is; see Files."),
    "stage": gettext_lazy("Somebody else was quicker; the version is now “{stage}”."),
}

_FAULTS: dict[str, Promise] = {
    "required": gettext_lazy("Fill this in."),
    "unprintable": gettext_lazy("Remove characters that cannot be shown."),
    "too-long": gettext_lazy("At most {maximum} characters."),
    "too-many": gettext_lazy("At most {maximum} tags."),
    "name-characters": gettext_lazy('A name has none of / \\ < > ".'),
    "name-taken": gettext_lazy(
        "The tenant has a model of this name already. Choose another, or register a version of it."
    ),
    "choice": gettext_lazy("Choose one of these."),
    "unknown-model": gettext_lazy("This model is not there, or belongs to another tenant."),
    "no-checkpoint": gettext_lazy("The job has no checkpoint yet."),
    "quarantined": gettext_lazy("All checkpoints of the job are in quarantine: its loss watch found none good."),
}

_HEADER_FAULTS: dict[str, Promise] = {
    "truncated": gettext_lazy("The file is shorter than its header says."),
    "gap": gettext_lazy("The file holds bytes that its header does not speak of."),
    "overlap": gettext_lazy("Two tensors lie over each other."),
    "offsets": gettext_lazy("A tensor's place does not fit its shape and type."),
    "shape": gettext_lazy("A tensor has a shape that no file can hold."),
    "dtype": gettext_lazy("A tensor has a type nobody knows."),
    "header-length": gettext_lazy("The header's length cannot be right."),
    "header-json": gettext_lazy("The header cannot be read."),
    "header-text": gettext_lazy("The header cannot be read."),
    "name-twice": gettext_lazy("A name stands in the header twice."),
    "name-length": gettext_lazy("A name is longer than names are."),
    "too-many": gettext_lazy("The header speaks of more tensors than any model has."),
    "magic": gettext_lazy("The file is not of the format its name says."),
    "version": gettext_lazy("The file is of a version of its format that is not known here."),
    "value-type": gettext_lazy("The header holds a value of no known type."),
    "alignment": gettext_lazy("The header's alignment cannot be right."),
    "archive": gettext_lazy("The archive cannot be read."),
    "member": gettext_lazy("The archive holds something other than arrays."),
}

_REASONS: dict[str, Promise] = {
    "waits-cluster": gettext_lazy("Waiting for the cluster to answer."),
    "waits-secrets": gettext_lazy("Waiting for the secrets server."),
    "waits-storage": gettext_lazy("Waiting for the portal's storage."),
    "waits-right": gettext_lazy("The portal lacks a right in the cluster. Tell a platform operator."),
    "waits-account": gettext_lazy(
        "The tenant's account in the cluster is missing or lacks a right. Restore the tenant's objects on its page, and"
        " this goes on by itself; if that changes nothing, tell a platform operator."
    ),
    "pod-waits": gettext_lazy("The pod that brings the files does not run yet: {text}"),
    "pod-pending": gettext_lazy("The pod that brings the files did not start in 15 minutes: {text}"),
    "pod-gone": gettext_lazy("The pod that brings the files was deleted in the cluster."),
    "pod-ended": gettext_lazy("The pod that brings the files ended (exit code {code}) before all had come."),
    "no-volume": gettext_lazy("The job's volume {claim} is no longer in the cluster, and the checkpoint with it."),
    "no-checkpoint": gettext_lazy("No checkpoint is in the job's volume. {text}"),
    "no-volume-content": gettext_lazy("The job's volume is empty."),
    "checkpoint-torn": gettext_lazy("No checkpoint in the job's volume is whole: {text}"),
    "storage-full": gettext_lazy("The portal's storage is full. Ask a platform operator for room."),
    "too-large": gettext_lazy("The files are larger than the portal takes. {text}"),
    "refused": gettext_lazy("The portal did not take the files: {text}"),
    "cluster-refused": gettext_lazy("The cluster refused the pod that brings the files: {text}"),
    "name-taken": gettext_lazy("Something else in the cluster has the name of the pod that brings the files."),
}

_MOVING: dict[Moving, Promise] = {
    Moving.ASKED: gettext_lazy("Files are asked for"),
    Moving.CARRYING: gettext_lazy("Files are coming"),
    Moving.READING: gettext_lazy("Headers are being read"),
    Moving.DONE: gettext_lazy("Files are here"),
    Moving.FAILED: gettext_lazy("Files did not come"),
    Moving.STOPPED: gettext_lazy("Stopped"),
}

FIELDS: dict[str, Promise] = {
    "name": gettext_lazy("Name"),
    "licence": gettext_lazy("Licence"),
    "visibility": gettext_lazy("Who sees it"),
    "card": gettext_lazy("Card"),
    "tags": gettext_lazy("Tags"),
    "note": gettext_lazy("Note"),
    "model": gettext_lazy("Model"),
    "comment": gettext_lazy("Comment"),
    "stage": gettext_lazy("Stage"),
    "format": gettext_lazy("Format"),
    "tenant": gettext_lazy("Tenant"),
}


TABS: dict[str, Promise] = {
    "versions": gettext_lazy("Versions"),
    "files": gettext_lazy("Files"),
    "history": gettext_lazy("History"),
}


class _Told(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "…"


def fault_text(fault: Fault) -> str:
    """What is not right, as a sentence."""
    return str(_FAULTS[fault.code]).format_map(_Told(fault.params))


def header_fault(code: str) -> str:
    """What is not right in a file's header."""
    return str(_HEADER_FAULTS.get(code, code))


def transfer_text(transfer: Transfer) -> str:
    """Where a transfer is, or why it ended, as a sentence."""
    known = _REASONS.get(transfer.reason)
    return str(known).format_map(_Told(transfer.reason_params)) if known else str(_MOVING[transfer.state])


def moving_word(transfer: Transfer) -> str:
    return str(_MOVING[transfer.state])


def stage_name(value: Any) -> str:
    """A stage as it is recorded, in words."""
    return str(STAGES[Stage(value)]) if value in list(Stage) else str(value)


def fields_text(recorded: Any) -> str:
    """Names of fields as they are recorded, in words."""
    names = [str(FIELDS.get(name, name)) for name in recorded] if isinstance(recorded, list) else [str(recorded)]
    return pgettext("between the parts of a list", ", ").join(names)


def reason_name(code: Any) -> str:
    """Why files did not come, in short, for the audit log."""
    return str(_REASONS[code]).format_map(_Told()) if code in _REASONS else _("unknown reason")


def form_context(typed: dict[str, str], faults: dict[str, str]) -> dict[str, Any]:
    """What templates/catalog/fields.html shows."""
    return {
        "typed": typed,
        "faults": faults,
        "summary": [(FIELDS.get(name, name), text, name) for name, text in faults.items()],
        "licences": LICENCES,
        "visibilities": [(key.value, word, typed.get("visibility") == key.value) for key, word in VISIBILITIES.items()],
    }
