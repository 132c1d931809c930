"""Readers of training logs that operators add: kept, tried, and in effect in every process within seconds."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence

import structlog
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.jobs.domain.traininglog import LogReader
from apps.jobs.domain.traininglog.formats import Format
from apps.jobs.domain.traininglog.readers import MOST, BadPattern, Tried, read_pattern, try_lines
from apps.jobs.models import LogPattern

log = structlog.get_logger(__name__)

SAVED = audit.action("log-reader.saved", _("{actor} changed the log reader {name}"), name=_("Change a log reader"))
REMOVED = audit.action("log-reader.removed", _("{actor} removed the log reader {name}"), name=_("Remove a log reader"))

TARGET = audit.TargetKind(_("the log reader"), page=lambda _pk: reverse("readers:list"))

FAULTS: dict[str, Promise] = {
    "name": _("Give it a name of at most 60 characters that no other reader has."),
    "too-long": _("Use at most 1,000 characters."),
    "syntax": _("This is no pattern of RE2, which has no look-around and no back-references."),
    "whole-line": _(
        "It fits an empty line; it has to fit what a framework prints, from the first character to the last."
    ),
    "no-step": _("Name the step: (?P<step>\\d+)."),
    "no-value": _("Name at least one figure, such as (?P<loss>\\S+)."),
    "too-many": _("There are 50 readers, and each is tried on every line. Remove one first."),
}
OURS: dict[str, tuple[str | Promise, str]] = {
    "platform": (
        _("the platform's format"),
        "[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-1000] [Loss: 2.456]",
    ),
    "megatron": ("Megatron-LM", "iteration 122/ 250000 | lm loss: 2.504220E+00 | grad norm: 0.231 |"),
    "deepspeed": ("DeepSpeed", "[…] [Rank 0] step=510, skipped=8, lr=[9.65e-06], mom=[…]"),
    "mmengine": ("mmengine", "… - Epoch(train) [2][10/735]  lr: 1.9e-04  loss: 2.5435"),
    "mindspore": ("MindSpore", "epoch: 2 step: 100, loss is 1.9073"),
    "dictionary": (_("Hugging Face, Ray Train, JSON lines"), '{"step": 12, "loss": 2.3, "lr": 1e-4}'),
    "stepped": (_("torchtitan and alike"), "step: 10  loss: 7.9320  grad_norm: 1.4530  tps: 7,411"),
}
"""Our own forms by the names of their functions: what prints them, and a line."""
PATTERN = "pattern"
"""Stands for a pattern that has no name yet."""
MOST_TRIED = 200_000
"""Characters of lines that are tried at once."""


@audit.use_case(SAVED)
def save_reader(
    actor: Actor, *, name: str, pattern: str, is_on: bool = True, known: LogPattern | None = None
) -> LogPattern:
    """Add a reader, or change the known one. Followed logs are read by it within seconds, from then on. Raises
    BadPattern (also with `why` name and too-many)."""
    actor.require(Permission.LOG_READERS_MANAGE, target="log-readers")
    name = " ".join(name.split())
    read_pattern(pattern)
    others = LogPattern.objects.exclude(pk=known.pk) if known else LogPattern.objects.all()
    if not 1 <= len(name) <= 60 or others.filter(name=name).exists():
        raise BadPattern("name")
    if not known and others.count() >= MOST:
        raise BadPattern("too-many")
    row = known or LogPattern()
    row.name, row.pattern, row.is_on = name, pattern, is_on
    row.changed_by_id, row.changed_at = uuid.UUID(actor.user_pk) if actor.user_pk else None, timezone.now()
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:  # somebody else gave this name at the same moment
        raise BadPattern("name") from None
    audit.record(SAVED, actor, f"log-reader:{row.pk}", name=name, pattern=pattern, is_on=is_on)
    return row


@audit.use_case(REMOVED)
def remove_reader(actor: Actor, *, known: LogPattern) -> None:
    """Points that it has read stay."""
    actor.require(Permission.LOG_READERS_MANAGE, target="log-readers")
    audit.record(REMOVED, actor, f"log-reader:{known.pk}", name=known.name)
    known.delete()


def try_text(actor: Actor, text: str, pattern: str | None = None) -> Sequence[Tried]:
    """What is read of some lines: by our own forms and all readers that are on, or by our own and this pattern alone.
    Nothing is kept. Raises BadPattern."""
    actor.require(Permission.LOG_READERS_VIEW, target="log-readers")
    forms = stored() if pattern is None else {PATTERN: read_pattern(pattern)}
    return try_lines(clusters.read_lines([text[:MOST_TRIED].encode()]), forms)


def stored() -> Mapping[str, Format]:
    """The readers that are on, by name, as the database has them now."""
    return {row.name: read_pattern(row.pattern) for row in LogPattern.objects.filter(is_on=True)}


# --- in effect ------------------------------------------------------------------------------------------------------

FRESH_SECONDS = 2.0


class _InEffect:
    """The stored readers in a process that follows logs on an event loop, which must not wait for the database: a
    thread of its own looks again while lines come, and the last known ones count meanwhile."""

    def __init__(self) -> None:
        self._forms: tuple[Format, ...] = ()
        self._looked = float("-inf")
        self._looking = threading.Lock()

    def forms(self) -> Sequence[Format]:
        if time.monotonic() - self._looked > FRESH_SECONDS and self._looking.acquire(blocking=False):
            is_first = self._looked == float("-inf")
            self._looked = time.monotonic()
            thread = threading.Thread(target=self._look, name="log-readers", daemon=True)
            thread.start()
            if is_first:
                thread.join(FRESH_SECONDS)  # once in a process, so that its first lines are read by them too
        return self._forms

    def _look(self) -> None:
        try:
            self._forms = tuple(stored().values())
        except (DatabaseError, BadPattern) as error:
            log.warning("log_readers_unread", error=str(error)[:200])
        finally:
            connection.close()
            self._looking.release()


_in_effect = _InEffect()


def in_effect() -> Sequence[Format]:
    """The readers that count now; never waits for the database but the first time."""
    return _in_effect.forms()


def log_reader() -> LogReader:
    """What reads the lines of one container."""
    return LogReader(in_effect)
