"""New jobs whose cluster does not answer: nobody knocks at a door that is known to be closed."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models.functions import Now

from apps.adapters.broker import wake
from apps.clusters import services as clusters
from apps.jobs.models import Job

REASON = "waiting.cluster"
UNTIL_ANSWERED = timedelta(minutes=5)
"""The watch wakes what waits for a cluster with its first answer. Until then a job asks by itself this rarely:
thousands of them must not take up the workers that others need."""
TASK = "jobs.reconcile_job"


def is_away(job: Job) -> bool:
    """Whether a look would find only what is known: its place is made, but its cluster did not answer."""
    return job.placement.is_ready and job.placement.cluster.unreachable_since is not None


def let_wait(job: Job) -> None:
    """Say of a job that is not written yet what a look would say, had it knocked."""
    job.reason, job.failures, job.due_at = REASON, 1, Now() + UNTIL_ANSWERED


def wake_unless_away(job: Job) -> None:
    """After commit. What waits is woken by the watch; should that have listed it before the commit, by this."""
    if job.failures:
        transaction.on_commit(partial(_wake_if_back, job), robust=True)
    else:
        wake(TASK, job.pk)


def _wake_if_back(job: Job) -> None:
    if not clusters.is_silent(job.placement.cluster_id):
        Job.objects.for_system().filter(pk=job.pk, failures__gt=0).update(failures=0, due_at=Now())
        wake(TASK, job.pk)
