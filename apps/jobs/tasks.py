"""Entry points for background work on jobs."""

from celery import shared_task
from django.utils import timezone

from apps.adapters.broker import send
from apps.jobs.reconcile.draft import judge_draft
from apps.jobs.reconcile.job import reconcile_job
from apps.jobs.services import background


@shared_task(name="jobs.reconcile_job")
def reconcile_job_task(job_id: str) -> None:
    if job := background.claim(job_id):
        again = reconcile_job(job)
        if background.let_go(job, None if again is None else timezone.now() + again):
            send("jobs.reconcile_job", job_id)


@shared_task(name="jobs.dry_run")
def dry_run_task(draft_id: str) -> None:
    judge_draft(draft_id)
