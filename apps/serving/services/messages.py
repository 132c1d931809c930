"""Codes of the domain in words for people: what happened and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.serving.domain.engines import Operand
from apps.serving.domain.phases import Phase
from apps.serving.domain.problems import Problem

PHASES: dict[Phase, Promise] = {
    Phase.ASKING: pgettext_lazy("deployment", "Asking"),
    Phase.PULLING: pgettext_lazy("deployment", "Pulling"),
    Phase.LOADING: pgettext_lazy("deployment", "Loading"),
    Phase.WARMING: pgettext_lazy("deployment", "Warming"),
    Phase.READY: pgettext_lazy("deployment", "Ready"),
    Phase.DEGRADED: pgettext_lazy("deployment", "Degraded"),
    Phase.SCALING: pgettext_lazy("deployment", "Scaling"),
    Phase.STOPPING: pgettext_lazy("deployment", "Stopping"),
    Phase.STOPPED: pgettext_lazy("deployment", "Stopped"),
    Phase.REMOVING: pgettext_lazy("deployment", "Removing"),
    Phase.REMOVED: pgettext_lazy("deployment", "Removed"),
    Phase.FAILED: pgettext_lazy("deployment", "Failed"),
}

LOOKS: dict[Phase, tuple[str, str]] = {
    Phase.ASKING: ("blue", "send"),
    Phase.PULLING: ("blue", "download"),
    Phase.LOADING: ("blue", "loader-2"),
    Phase.WARMING: ("blue", "flame"),
    Phase.READY: ("green", "circle-check"),
    Phase.DEGRADED: ("amber", "alert-circle"),
    Phase.SCALING: ("amber", "arrows-vertical"),
    Phase.STOPPING: ("grey", "player-stop"),
    Phase.STOPPED: ("grey", "player-stop"),
    Phase.REMOVING: ("grey", "trash"),
    Phase.REMOVED: ("grey", "trash"),
    Phase.FAILED: ("red", "alert-triangle"),
}

REASONS: dict[str, Promise] = {
    "asking.cluster": _("The cluster does not answer. The deployment is kept and goes in as soon as it is back."),
    "asking.secrets": _(
        "The secrets server does not answer, so the cluster cannot be asked. The deployment is kept and goes in by"
        " itself."
    ),
    "asking.right": _(
        "The portal's account in the cluster lacks a right, which a platform operator must give it. The deployment is"
        " kept and goes in by itself."
    ),
    "asking.account": _(
        "The tenant's account in the cluster is missing or lacks a right. Restore the tenant's objects on its page, and"
        " this goes on by itself; if that changes nothing, tell a platform operator."
    ),
    "asking.placement": _("The tenant's place in the cluster is still being prepared."),
    "asking.cluster-takes": _("The cluster is being asked for its objects."),
    "asking.scheduler": _("The scheduler looks for a node."),
    "asking.unplaced": _("No node has room for a replica yet; it starts by itself when one has: {text}"),
    "pulling.image": _("The engine's image cannot be pulled: {text}"),
    "loading.files": _("The model's files are being fetched and checked."),
    "loading.memory": _("The engine reads the model into memory."),
    "loading.crash": _("A container ended with exit code {code} and is started again: {text}"),
    "warming.others": _("{ready} of {all} replicas are ready."),
    "scaling.replicas": _("{ready} of {all} replicas are ready."),
    "degraded.replicas": _("{ready} of {all} replicas are ready. The others are being brought back."),
    "degraded.crash": _(
        "{ready} of {all} replicas are ready. One ended with exit code {code} and is started again: {text}"
    ),
    "failed.crash": _(
        "The model does not start: after {restarts} restarts the last run ended with exit code {code}. {text}"
    ),
    "failed.refused": _("The cluster refused its objects: {text}"),
    "failed.conflict": _("The cluster already holds a foreign object under this deployment's name."),
    "failed.version-gone": _("The model's version is gone or its files are not whole. Deploy another version."),
    "stopped.by": _("Stopped by {name}. Start it again at any time; address and keys stay."),
}

PROBLEMS: dict[str, Promise] = {
    "required": _("Fill this in."),
    "not-whole": _("“{value}” is not a whole number."),
    "out-of-range": _("“{value}” is out of range: choose from {minimum} to {maximum}."),
    "too-long": _("This has {length} characters; at most {maximum} fit."),
    "unprintable": _("Remove line breaks and other characters that cannot be shown."),
    "name-characters": _("A name may not contain / \\ < or >."),
    "unknown-shape": _("There is no such shape."),
    "unknown-version": _("There is no such version, or you may not see it."),
    "other-tenant": _("This version belongs to another tenant. Deploy it there, or ask for it to be made public."),
    "files-coming": _("The version's files are not all in storage yet."),
    "no-engine": _("No engine here serves the format “{format}”."),
    "no-placement": _("This tenant has no place in a cluster yet. Ask a platform operator to provision it."),
    "maintenance": _("{cluster} is in maintenance and takes nothing new: {reason}"),
    "does-not-fit": _("The model does not fit this shape: choose a larger one."),
    "cannot-split": _("{engine} cannot spread one replica over several GPUs: choose a shape with one."),
    "no-room": _(
        "This takes {more} more GPUs; the quota leaves {left} of {limit}. Ask for more, or take fewer replicas."
    ),
    "version-gone": _("The model's version was removed. Deploy another version."),
    "name-differs": _("Type the name exactly: {name}"),
    "too-many-keys": _("At most {limit} keys at a time: revoke one first."),
}

OPERANDS: dict[str, tuple[Promise, Promise]] = {
    "weights": (_("Weights"), _("{parameters} parameters × {each} bytes")),
    "loading": (_("While loading"), _("the files as read")),
    "cache": (_("Context"), _("{context} tokens × {requests} requests at once")),
    "runtime": (_("Engine"), _("before a model is in it")),
}


def phase_name(value: str) -> Promise | str:
    """A phase in words."""
    return {phase.value: word for phase, word in PHASES.items()}.get(value, value)


def reason_text(code: str, params: Mapping[str, Any]) -> str:
    """A reason as a sentence in the reader's language. A code without words is shown as it is."""
    return _filled(str(REASONS.get(code, code)), params) if code else ""


def problem_text(problem: Problem) -> str:
    """A problem of a field as a sentence in the reader's language."""
    return _filled(str(PROBLEMS.get(problem.code, problem.code)), problem.params)


def operand_text(operand: Operand) -> tuple[str, str]:
    """What a term of the memory is, and how it comes about."""
    word, how = OPERANDS[operand.code]
    numbers = {key: f"{value:,}" for key, value in operand.params.items()}
    return str(word), str(how).format_map(numbers) if all(operand.params.values()) else ""


class _Told(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def _filled(text: str, params: Mapping[str, Any]) -> str:
    return text.format_map(_Told({key: str(value) for key, value in params.items()}))
