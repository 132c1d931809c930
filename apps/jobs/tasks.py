"""Entry points for background work on jobs."""

from celery import shared_task

from apps.adapters.broker import send
from apps.clusters import services as clusters
from apps.jobs.reconcile.board import reconcile_board
from apps.jobs.reconcile.draft import judge_draft
from apps.jobs.reconcile.elsewhere import look_elsewhere
from apps.jobs.reconcile.harvest import reconcile_events
from apps.jobs.reconcile.job import reconcile_job
from apps.jobs.reconcile.losswatch import watch_loss
from apps.jobs.services import background, boards, elsewhere, harvesting
from apps.jobs.services.losswatch import TASK


@shared_task(name="jobs.reconcile_job")
def reconcile_job_task(job_id: str) -> None:
    if clusters.look(background.job_rows(job_id), reconcile_job):
        send("jobs.reconcile_job", job_id)


@shared_task(name=TASK)
def watch_loss_task(job_id: str) -> None:
    watch_loss(job_id)


@shared_task(name=harvesting.TASK)
def reconcile_events_task(job_id: str) -> None:
    if clusters.look(background.reader_rows(job_id), reconcile_events):
        send(harvesting.TASK, job_id)


@shared_task(name=boards.TASK)
def reconcile_board_task(board_id: str) -> None:
    if clusters.look(background.board_rows(board_id), reconcile_board):
        send(boards.TASK, board_id)


@shared_task(name="jobs.dry_run")
def dry_run_task(draft_id: str) -> None:
    judge_draft(draft_id)


@shared_task(name=elsewhere.TASK)
def look_elsewhere_task(job_id: str, row: str) -> None:
    look_elsewhere(job_id, row)
