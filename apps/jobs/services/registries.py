"""What jobs tell lower apps of themselves; called once, when the app is ready."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.jobs import moves
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase
from apps.jobs.services import (
    background,
    board_words,
    boards,
    harvesting,
    loss_words,
    losswatch,
    messages,
    podevents,
    readers,
    reading,
)
from apps.notices import services as notices


def fill_clusters() -> None:
    """What is put into clusters, and which rows are due."""
    clusters.register_workload(
        clusters.WorkloadKind(
            label=manifests.JOB_LABEL,
            task="jobs.reconcile_job",
            topic=lambda job_id: f"job.{job_id}",
            reader=readers.log_reader,
            figures_task=losswatch.TASK,
            known=background.known_jobs,
            unsettled=background.unsettled_jobs,
            waiting=background.waiting_jobs,
            ended=background.note_pod_end,
            seen=background.note_pods,
            said=podevents.note_events,
            links=reading.links,
            exposed=background.exposed_metrics,
        )
    )
    clusters.register_workload(
        clusters.WorkloadKind(
            label=manifests.EVENTS_LABEL,
            task=harvesting.TASK,
            topic=lambda job_id: f"events.{job_id}",
            known=background.known_readers,
            waiting=background.waiting_readers,
            objects=("v1", "Pod"),
        )
    )
    clusters.register_workload(
        clusters.WorkloadKind(
            label=manifests.BOARD_LABEL,
            task=boards.TASK,
            topic=lambda board_id: f"board.{board_id}",
            known=background.known_boards,
            waiting=background.waiting_boards,
            objects=("v1", "Pod"),
        )
    )
    clusters.register_published(clusters.Published(boards.MARK, boards.routes, boards.judge))
    clusters.register_due(boards.TASK, background.due_boards)
    clusters.register_due("jobs.reconcile_job", background.due_jobs, background.due_accepted)
    clusters.register_due(harvesting.TASK, background.due_readers)


def fill_words() -> None:
    """What the audit log and notices say of jobs."""
    audit.register_words("job.moved", old=messages.phase_name, new=messages.phase_name)
    audit.register_words("draft.begun", template=messages.template_name)
    audit.register_words("job.loss-tripped", why=loss_words.finding_text)
    audit.register_words("job.loss-set", watch=loss_words.preset_name)
    audit.register_words("job.board-over", reason=board_words.reason_name)
    audit.register_target("log-reader", readers.TARGET)
    audit.register_system("reconcile", _("Job control"))
    audit.register_system("losswatch", _("Loss watch"))
    audit.register_system("eventreader", _("Event file reader"))
    audit.register_target(
        "job", audit.TargetKind(_("the job"), page=lambda job_id: reverse("jobs:detail", args=[job_id]))
    )
    notices.register_words(moves.TOLD[Phase.FAILED], why=lambda why: messages.reason_text(*why))
    notices.register_words(losswatch.TOLD_TRIP, why=loss_words.finding_text)
    notices.register_words(losswatch.TOLD_ALERT, why=loss_words.finding_text)
