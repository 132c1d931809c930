"""The loss watch of a job: what it found, what it did, and what people do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.jobs.domain import losswatch
from apps.jobs.domain.fields import Field
from apps.jobs.domain.losswatch import Action, Finding, Settings, State
from apps.jobs.domain.problems import InvalidDocument, Problem
from apps.jobs.domain.spec import NAME_LIMIT, read_fields, read_spec
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Draft, Job, LossWatch
from apps.jobs.services.checkpoints import offered, watch_of
from apps.jobs.services.control import NotNow, require_control, suspend
from apps.jobs.services.drafts import DRAFT_BEGUN
from apps.notices import services as notices
from apps.streams import services as streams
from apps.streams.services import hint

TASK = "jobs.watch_loss"
WATCH = Actor(id="system:losswatch", name="system:losswatch")
LOSS_TRIPPED = audit.action(
    "job.loss-tripped", gettext_lazy("The loss watch tripped on the job {name}. {why}"),
    name=gettext_lazy("The loss watch trips"),
)  # fmt: skip
LOSS_SET = audit.action(
    "job.loss-set", gettext_lazy("{actor} changed the loss watch of the job {name}: {watch}"),
    name=gettext_lazy("Change a loss watch"),
)  # fmt: skip
LOSS_DISMISSED = audit.action(
    "job.loss-dismissed", gettext_lazy("{actor} called it a false alarm that the loss watch tripped on the job {name}"),
    name=gettext_lazy("Call a loss watch's verdict a false alarm"),
)  # fmt: skip
TOLD_TRIP = notices.kind(
    "job.loss-tripped", gettext_lazy("The loss watch tripped on your job {name}. {why}"),
    name=gettext_lazy("The loss watch trips"), icon="trending-up", tone="red",
)  # fmt: skip
TOLD_ALERT = notices.kind(
    "job.loss-alert", gettext_lazy("The loss watch noticed something about your job {name}. {why}"),
    name=gettext_lazy("The loss watch notices something"), icon="trending-up", tone="amber",
)  # fmt: skip


def fields_of(job: Job) -> dict[str, Field]:
    """What can be said of the job's watch, with its template's defaults."""
    return losswatch.fields(TEMPLATES[job.document["template"]].watch_actions)


def settings_of(job: Job, row: LossWatch | None = None) -> Settings:
    """What the watch goes by now."""
    fields = fields_of(job)
    stored = {**job.document, **(row or watch_of(job)).settings}
    values, _problems = read_fields(fields, {key: stored[key] for key in fields if key in stored})
    return Settings.read(values)


# --- what the watch does ----------------------------------------------------------------------------------------------


def trip(row: LossWatch, settings: Settings, found: Finding) -> None:
    """Keep the verdict and do what the settings say, in the caller's transaction."""
    job, actions = row.job, settings.actions
    row.state, row.finding, row.since = State.TRIPPED, found.dump(), timezone.now()
    row.marked, row.quarantine, row.good_step = Action.MARK in actions, Action.QUARANTINE in actions, found.good
    audit.record(
        LOSS_TRIPPED, WATCH, job.audit_id, tenant_id=job.tenant_id, name=job.name, why=row.finding, rule=found.rule
    )
    row.done = []
    if Action.SUSPEND in actions:
        try:
            suspend(WATCH, job=job)
        except NotNow as not_now:
            row.done.append({"act": Action.SUSPEND, "phase": not_now.phase})
        else:
            row.done.append({"act": Action.SUSPEND})
    if Action.QUARANTINE in actions:
        row.done.append({"act": Action.QUARANTINE})
    if Action.NOTIFY in actions:
        _tell(job, TOLD_TRIP, row.finding)
        row.done.append({"act": Action.NOTIFY})
    row.save()
    _hint(job)


def note(row: LossWatch, settings: Settings, memory: losswatch.Memory) -> bool:
    """Set a doubt or an alert, or that there is none, and tell of new alerts. Whether that is news; the caller
    saves."""
    job, known = row.job, {alert["rule"] for alert in row.alerts}
    found = [alert.dump() for alert in memory.alerts]
    doubt = memory.doubt.dump() if memory.doubt else {}
    if (row.state, row.finding, row.alerts) == (memory.state, doubt, found):
        return False
    if row.state != memory.state:
        row.since = timezone.now()
    row.state, row.finding, row.alerts = memory.state, doubt, found
    row.marked = bool(found) and Action.MARK in settings.actions
    for alert in found:
        if alert["rule"] not in known and Action.NOTIFY in settings.actions:
            _tell(job, TOLD_ALERT, alert)
    _hint(job)
    return True


def _tell(job: Job, kind: Any, why: Mapping[str, Any]) -> None:
    link = reverse("jobs:detail", args=[job.pk])
    notices.tell([job.owner_id], kind, link=link, tenant_id=job.tenant_id, name=job.name, why=dict(why))


def _hint(job: Job) -> None:
    hint(job.topic)
    hint(f"tenant.{job.tenant_id}")


# --- what people do ---------------------------------------------------------------------------------------------------


@audit.use_case(LOSS_SET)
def change_watch(actor: Actor, *, job: Job, typed: Mapping[str, Any]) -> None:
    """Change what the watch goes by from now on. Raises Denied, InvalidDocument, and NotNow after the job's end."""
    require_control(actor, job)
    if job.state.is_final:
        raise NotNow(job.state)
    fields = fields_of(job)
    row, _new = LossWatch.objects.select_for_update().get_or_create(job=job)
    values, problems = read_fields(fields, {**settings_of(job, row).document(), **typed})
    problems += [Problem(str(key)[:60], "unknown-field") for key in typed if key not in fields]
    if problems:
        raise InvalidDocument(problems)
    row.settings = Settings.read(values).document()
    row.save(update_fields=["settings"])
    audit.record(
        LOSS_SET,
        actor,
        job.audit_id,
        tenant_id=job.tenant_id,
        name=job.name,
        watch=row.settings["watch"],
        to=row.settings,
    )
    hint(job.topic)
    wake(TASK, job.pk)


@audit.use_case(LOSS_DISMISSED)
def dismiss(actor: Actor, *, job: Job) -> None:
    """Say that it was a false alarm: the verdict and the quarantine go, and the watch begins anew behind the newest
    point. Nothing changes where it has not tripped. Raises Denied."""
    require_control(actor, job)
    row = LossWatch.objects.select_for_update().filter(job=job, state=State.TRIPPED).first()
    if row is None:
        return
    newest = streams.logged(job.topic, ("loss",), limit=1)
    fresh = LossWatch(job=job, settings=row.settings)
    if newest:
        fresh.from_attempt, fresh.from_step = newest[0].attempt, newest[0].step
    fresh.save(force_update=True)
    audit.record(LOSS_DISMISSED, actor, job.audit_id, tenant_id=job.tenant_id, name=job.name)
    _hint(job)


@audit.use_case(DRAFT_BEGUN)
def begin_again(actor: Actor, *, job: Job) -> Draft:
    """A draft that is ready to be submitted: the job again from its last good checkpoint with a tenth of its learning
    rate. Raises Denied."""
    actor.require(Permission.JOB_SUBMIT, job.tenant_id, target=job.audit_id)
    template = job.document["template"]
    draft = Draft.objects.create(
        tenant_id=job.tenant_id, owner_id=actor.user_pk, document=again_document(job), cloned_from=job
    )
    audit.record(DRAFT_BEGUN, actor, f"draft:{draft.pk}", tenant_id=job.tenant_id, template=template)
    return draft


def again_document(job: Job) -> dict[str, Any]:
    """The document of `begin_again`."""
    spec = read_spec({key: value for key, value in job.document.items() if key not in losswatch.FIELDS})
    document = {**job.document, **watch_of(job).settings}
    rate, offer = TEMPLATES[spec.template].rate_field, offered(job)
    if rate:
        document[rate] = float(f"{float(spec.parameters[rate]) / 10:.6g}")
    if offer is None:
        document["note"] = _("Again with a tenth of the learning rate of {name}.").format(name=job.name)[:500]
        return document
    end = _(" from step {step}").format(step=offer.step)
    document["name"] = job.name[: NAME_LIMIT - len(end)] + end
    document["note"] = _("From step {step} of {name} with a tenth of its learning rate.").format(
        step=offer.step, name=job.name
    )[:500]
    document["resume_from"] = f"{job.pk}@{offer.step}"
    return document
