"""What people do with a job that is on its way: stop, suspend, resume."""

from __future__ import annotations

from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Job, LossWatch
from apps.jobs.services import holding
from apps.quotas import services as quotas
from apps.streams.services import hint

JOB_STOPPED = audit.action("job.stop", _("{actor} stopped the job {name}"), name=_("Stop a job"))
JOB_SUSPENDED = audit.action("job.suspend", _("{actor} suspended the job {name}"), name=_("Suspend a job"))
JOB_RESUMED = audit.action("job.resume", _("{actor} resumed the job {name}"), name=_("Resume a job"))


class NotNow(Exception):
    """The job is in a phase in which this cannot be done; `phase` says which."""

    def __init__(self, phase: Phase) -> None:
        super().__init__(phase)
        self.phase = phase


class Quarantined(Exception):
    """The loss watch tripped, and the job would go on from a checkpoint that was saved after that."""


@audit.use_case(JOB_STOPPED)
def stop(actor: Actor, *, job: Job) -> None:
    """End a job; its checkpoints stay. A second stop changes nothing; raises NotNow after the end."""
    _change(actor, job, Wanted.STOP, JOB_STOPPED)


@audit.use_case(JOB_SUSPENDED)
def suspend(actor: Actor, *, job: Job) -> None:
    """Take a job off its nodes; its checkpoints stay. Raises NotNow unless it is wanted to run."""
    _change(actor, job, Wanted.SUSPEND, JOB_SUSPENDED)


@audit.use_case(JOB_RESUMED)
def resume(actor: Actor, *, job: Job) -> None:
    """Let a suspended job go on from its newest checkpoint. Raises NotNow unless it was suspended, Quarantined while
    its newest checkpoint may be spoilt, `quotas.NoRoom` where others hold its place meanwhile, and `clusters.Closed`
    while nothing may begin in its cluster."""
    require_control(actor, job)
    if not job.state.is_final and LossWatch.objects.filter(job=job, quarantine=True).exists():
        raise Quarantined
    _change(actor, job, Wanted.RUN, JOB_RESUMED)


def may_control(actor: Actor, job: Job) -> bool:
    """Whether this person may stop, suspend and resume this job: their own, or any as team admin or operator."""
    own = str(job.owner_id) == actor.user_pk and actor.may(Permission.JOB_CONTROL_OWN, job.tenant_id)
    return own or actor.may(Permission.JOB_CONTROL_ANY, job.tenant_id)


_FROM = {Wanted.STOP: {Wanted.RUN, Wanted.SUSPEND}, Wanted.SUSPEND: {Wanted.RUN}, Wanted.RUN: {Wanted.SUSPEND}}


def require_control(actor: Actor, job: Job) -> None:
    """Raises Denied."""
    if not may_control(actor, job):
        own = str(job.owner_id) == actor.user_pk
        missing = Permission.JOB_CONTROL_OWN if own else Permission.JOB_CONTROL_ANY
        actor.require(missing, job.tenant_id, target=f"job:{job.pk}")


def _change(actor: Actor, job: Job, wanted: Wanted, what: audit.Action) -> None:
    target = f"job:{job.pk}"
    require_control(actor, job)
    here = Job.objects.for_system().unfinished().filter(pk=job.pk)
    changed = here.filter(wanted__in=_FROM[wanted]).update(wanted=wanted, wanted_by=actor.name, due_at=Now())
    if not changed:
        job.refresh_from_db()
        if job.wanted == wanted and not job.state.is_final:
            return
        raise NotNow(job.state)
    job.refresh_from_db()
    if wanted is Wanted.RUN:
        clusters.require_open(job.placement.cluster_id)
        holding.take(job)
    elif job.state is Phase.SUSPENDED:
        quotas.release(job.subject)
    audit.record(what, actor, target, tenant_id=job.tenant_id, name=job.name)
    hint(job.topic)
    wake("jobs.reconcile_job", job.pk)
