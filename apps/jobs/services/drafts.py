"""The wizard's document: begun, filled, judged by the API server, thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.jobs.domain import pasted
from apps.jobs.domain.problems import InvalidDocument, Problem
from apps.jobs.domain.spec import LATER_FIELDS, JobSpec, fields_of, read_fields, read_spec
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Draft, Job
from apps.jobs.services.checkpoints import origin_problems
from apps.secrets import services as secrets
from apps.streams.services import hint

DRAFT_BEGUN = audit.action("draft.begun", _("{actor} began a draft from {template}"), name=_("Begin a draft"))
DRAFT_DISCARDED = audit.action("draft.discarded", _("{actor} discarded the draft {name}"), name=_("Discard a draft"))

STEPS = ("data", "size", "review")
"""The wizard's steps after the choice of a template."""


ANSWER_WITHIN = timedelta(seconds=15)
"""A dry run that was asked for longer ago than this and has no answer is lost, and asked for again."""


class StaleDraft(Exception):
    """Another tab saved this draft meanwhile; nothing was written."""


@audit.use_case(DRAFT_BEGUN)
def begin_draft(actor: Actor, *, tenant_id: int, template: str = "", clone_of: Job | None = None) -> Draft:
    """A new draft from a template, or from a job the actor may see. Raises InvalidDocument for an unknown template."""
    actor.require(Permission.JOB_SUBMIT, tenant_id, target=f"tenant:{tenant_id}")
    document = dict(clone_of.document) if clone_of else {"template": template}
    if document["template"] not in TEMPLATES:
        raise InvalidDocument([Problem("template", "unknown-template", {"value": template[:40]})])
    draft = Draft.objects.create(tenant_id=tenant_id, owner_id=actor.user_pk, document=document, cloned_from=clone_of)
    audit.record(DRAFT_BEGUN, actor, f"draft:{draft.pk}", tenant_id=tenant_id, template=document["template"])
    return draft


def save_draft(actor: Actor, draft: Draft, typed: Mapping[str, Any], *, version: int) -> Draft:
    """Keep what was typed into some fields, right or wrong. Raises StaleDraft unless `version` is the stored one.

    A pasted secret alone is not kept: a mark stands where it stood. Not audited: a draft is its owner's notebook until
    it is submitted.
    """
    actor.require(Permission.JOB_SUBMIT, draft.tenant_id, target=f"draft:{draft.pk}")
    known = fields_of(TEMPLATES[draft.document["template"]])
    document = {**draft.document, **{key: pasted.without(value) for key, value in typed.items() if key in known}}
    here = Draft.objects.for_system().filter(pk=draft.pk, version=version)
    if not here.update(document=document, version=F("version") + 1, updated_at=Now()):
        raise StaleDraft
    draft.refresh_from_db()
    return draft


def problems_of(draft: Draft, step: str = "") -> list[Problem]:
    """What is wrong with the fields of one step, or (without a step) with the whole document."""
    template = TEMPLATES[draft.document["template"]]
    every = fields_of(template)
    chosen = {key: field for key, field in every.items() if not step or (key in LATER_FIELDS) == (step == "size")}
    values, problems = read_fields(chosen, draft.document)
    problems += unknown_secrets(draft.tenant_id, values.get("secrets", []))
    if step != "size":
        problems += origin_problems(draft.tenant_id, values)
    if not problems and not step:
        problems = whole_problems(draft.document)
    return problems


def unknown_secrets(tenant_id: int, names: list[str]) -> list[Problem]:
    """A problem when a document names what is no secret of the tenant."""
    missing = secrets.missing(tenant_id, names) if names else []
    return [Problem("secrets", "unknown-secret", {"name": missing[0]})] if missing else []


def whole_problems(document: Mapping[str, Any]) -> list[Problem]:
    """Faults that only show when all fields are read."""
    try:
        whole_spec(document)
    except InvalidDocument as invalid:
        return invalid.problems
    return []


def whole_spec(document: Mapping[str, Any]) -> JobSpec:
    """A whole document's spec. Raises InvalidDocument with every problem that shows when all fields are read."""
    spec = read_spec(document)
    batch = spec.parameters.get("global_batch")
    if batch is not None and batch % spec.ranks:
        raise InvalidDocument([Problem("global_batch", "batch-ranks", {"batch": batch, "ranks": spec.ranks})])
    return spec


def ask_dry_run(actor: Actor, draft: Draft) -> None:
    """Let a task ask the API server what it would say; the page is hinted when the answer is there."""
    actor.require(Permission.JOB_SUBMIT, draft.tenant_id, target=f"draft:{draft.pk}")
    draft.dry_run = {"state": "asked", "version": draft.version, "at": timezone.now().isoformat()}
    draft.save(update_fields=["dry_run"])
    hint(draft.topic)
    wake("jobs.dry_run", str(draft.pk))


def dry_run_of(draft: Draft) -> dict[str, Any]:
    """The API server's answer to the draft as it stands; state "none" where nobody asked, or too long ago."""
    known: dict[str, Any] = draft.dry_run
    if known.get("version") != draft.version:
        return {"state": "none"}
    if known["state"] != "asked":
        return known
    asked_at = datetime.fromisoformat(known["at"]) if "at" in known else None
    return known if asked_at and timezone.now() - asked_at < ANSWER_WITHIN else {"state": "none"}


@audit.use_case(DRAFT_DISCARDED)
def discard_draft(actor: Actor, draft: Draft) -> None:
    """Throw a draft away; the job it became, if it did, stays."""
    actor.require(Permission.JOB_SUBMIT, draft.tenant_id, target=f"draft:{draft.pk}")
    name = str(draft.document.get("name", ""))
    audit.record(DRAFT_DISCARDED, actor, f"draft:{draft.pk}", tenant_id=draft.tenant_id, name=name)
    draft.delete()
