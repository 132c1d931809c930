"""What lower apps ask of jobs through their registries, and what background work does to a row."""

from __future__ import annotations

import uuid
from collections.abc import Sequence, Set
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import ngettext

from apps.accounts.types import Actor
from apps.clusters import services as clusters
from apps.jobs import moves
from apps.jobs.domain.boards import OVER
from apps.jobs.domain.lifecycle import failure
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.podevents import end_reason
from apps.jobs.models import Board, Draft, EventReader, Job, JobRank
from apps.secrets import services as secrets
from apps.streams.services import hint
from apps.tenants.services import Blocker, Placement

ENDED = ("Succeeded", "Failed")
"""Phases of a pod that runs no more."""
ALIVE = ("Pending", "Running")


def due_jobs() -> list[str]:
    """Ids of jobs to look at now."""
    return clusters.due(Job.objects.for_system())


def due_accepted() -> list[str]:
    """Those of them that have not gone in yet."""
    return clusters.due(Job.objects.for_system().filter(phase=Phase.SUBMITTED))


def known_jobs(ids: set[str]) -> set[str]:
    """Those of some ids that are jobs of ours; objects of others are orphans."""
    return set(Job.objects.for_system().filter(pk__in=ids).values_list("pk", flat=True))


def unsettled_jobs(ids: set[str]) -> set[str]:
    """Those of some jobs, whose objects are there, that are to have none and are not due any more: a slow worker may
    have applied once more after the stop."""
    return set(Job.objects.for_system().filter(pk__in=ids, phase=Phase.STOPPED).values_list("pk", flat=True))


def blockers(placement: Placement) -> list[Blocker]:
    """What stands in the way of removing a tenant from a cluster: its jobs there that have not ended."""
    n = Job.objects.for_system().unfinished().filter(placement_id=placement.pk).count()
    if not n:
        return []
    text = ngettext("{n} job has not ended.", "{n} jobs have not ended.", n).format(n=n)
    return [Blocker(text, f"{reverse('jobs:list')}?tenant={placement.tenant.slug}&state=alive")]


def board_blockers(placement: Placement) -> list[Blocker]:
    """The same of TensorBoards that are open for jobs there."""
    n = Board.objects.filter(job__placement_id=placement.pk).exclude(phase__in=OVER).count()
    if not n:
        return []
    text = ngettext("{n} TensorBoard is open.", "{n} TensorBoards are open.", n).format(n=n)
    return [Blocker(text, f"{reverse('jobs:list')}?tenant={placement.tenant.slug}")]


def secret_uses(tenant_ids: Set[int]) -> list[secrets.Use]:
    """Unfinished jobs of these tenants, once for each secret they name."""
    alive = Job.objects.for_system().unfinished().filter(tenant_id__in=tenant_ids, document__has_key="secrets")
    rows = alive.order_by("-id").values_list("tenant_id", "pk", "name", "document__secrets")
    return [
        secrets.Use(tenant_id, name, job_name, reverse("jobs:detail", args=[pk]))
        for tenant_id, pk, job_name, names in rows
        for name in names
    ]


def live_subjects(subjects: Set[str]) -> set[str]:
    """Those of some `job:<id>` that have not ended."""
    ids = [subject.removeprefix("job:") for subject in subjects]
    return {f"job:{pk}" for pk in Job.objects.for_system().unfinished().filter(pk__in=ids).values_list("pk", flat=True)}


def note_pod_end(end: clusters.PodEnd) -> None:
    """Keep how a rank ended, told by the watch as it happened: a look that comes later may find no pod any more."""
    if not Job.objects.for_system().filter(pk=end.row_id).exists():
        return
    values = {
        "job_id": end.row_id,
        "pod_name": end.pod_name,
        "attempt": end.attempt,
        "rank": end.rank,
        "node": end.node,
        "phase": "Failed" if end.exit_code else "Succeeded",
        "exit_code": end.exit_code,
        "end_reason": end_reason(end.reason.status, end.reason.disruption, end.reason.container)[:80],
        "ended_at": end.at,
    }
    if end.started_at is not None:
        values["started_at"] = end.started_at
    with transaction.atomic():
        # With the job's row locked, either its last move sees this end, or this sees the last move.
        job = Job.objects.for_system().select_for_update().get(pk=end.row_id)
        keep_rank(end.pod_uid, values)
        if job.state.is_final:
            moves.book(job)
    if end.exit_code:
        # A worker may have seen the gang start anew before this was told: what was moved without a cause gets it now.
        kept = JobRank.objects.filter(job_id=end.row_id, attempt=end.attempt)
        moves.explain(end.row_id, end.attempt, failure(kept))


_NOTE_PODS = """
WITH told AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::timestamptz[])
    AS told(pod_uid, phase, node, waiting, message, started_at)
), free AS (
    SELECT id FROM jobs_jobrank WHERE pod_uid = ANY(%s) AND phase = ANY(%s) FOR UPDATE SKIP LOCKED
), changed AS (
    UPDATE jobs_jobrank AS known
    SET phase = told.phase, node = told.node, waiting = told.waiting, message = told.message,
        started_at = told.started_at
    FROM told, free
    WHERE known.id = free.id AND known.pod_uid = told.pod_uid
    AND (known.phase, known.node, known.waiting, known.message, known.started_at)
        IS DISTINCT FROM (told.phase, told.node, told.waiting, told.message, told.started_at)
    RETURNING known.job_id
)
SELECT DISTINCT job_id, NULL FROM changed
UNION ALL SELECT NULL, pod_uid FROM jobs_jobrank WHERE pod_uid = ANY(%s) AND phase = ANY(%s)
    AND id NOT IN (SELECT id FROM free)
"""
# One statement: the watch writes while hundreds of pods a second change, and the ORM's CASE for each row and column
# took most of its time.


@transaction.atomic
def note_pods(pods: Sequence[clusters.PodSeen]) -> set[str]:
    """Keep how ranks that are known stand, and tell open pages of it; what that means for the job, its look says.

    Gives the uids of those that a look writes at this moment: it is not waited for.
    """
    told = [(p.pod_uid, p.phase, p.node, p.waiting[:80], p.message[:500], p.started_at) for p in pods]
    columns = [list(column) for column in zip(*told, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_NOTE_PODS, [*columns, *[columns[0], list(ALIVE)] * 2])
        rows = cursor.fetchall()
    for job_id in sorted(job_id for job_id, _ in rows if job_id):
        hint(Job(pk=job_id).topic)
    return {pod_uid for _, pod_uid in rows if pod_uid}


@transaction.atomic
def keep_rank(pod_uid: str, values: dict[str, Any]) -> bool:
    """Write what is known of a rank; whether that is news. One that has ended stays so: a look may be older than what
    the watch has told of the same pod."""
    row, is_new = JobRank.objects.select_for_update().get_or_create(pod_uid=pod_uid, defaults=values)
    if is_new:
        return True
    if row.phase in ENDED and values["phase"] not in ENDED:
        return False
    changed = {key: value for key, value in values.items() if getattr(row, key) != value}
    return bool(changed and JobRank.objects.filter(pk=row.pk).update(**changed))


def may_follow_job(actor: Actor, job_id: str) -> bool:
    return Job.objects.visible_to(actor).filter(pk=job_id).exists()


def tenant_of(job_id: str) -> int | None:
    return Job.objects.for_system().filter(pk=job_id).values_list("tenant_id", flat=True).first()


def may_follow_draft(actor: Actor, draft_id: str) -> bool:
    try:
        return Draft.objects.visible_to(actor).filter(pk=uuid.UUID(draft_id)).exists()
    except ValueError:
        return False


def waiting_jobs(cluster_id: int) -> list[str]:
    """Ids of jobs that waited for a cluster which answers again; those that have not gone in yet come first."""
    here = Job.objects.for_system().filter(placement__cluster_id=cluster_id)
    accepted = here.filter(phase=Phase.SUBMITTED)
    return clusters.waiting(accepted) + clusters.waiting(here.exclude(phase=Phase.SUBMITTED))


def exposed_metrics(ids: set[str]) -> dict[str, dict[str, str]]:
    """What some jobs' ranks expose to Prometheus, by series; of those alone that say so."""
    rows = Job.objects.for_system().filter(pk__in=ids, document__has_key="metrics")
    return {pk: metrics for pk, metrics in rows.values_list("pk", "document__metrics") if metrics}


def job_rows(job_id: str) -> QuerySet[Job]:
    """The row of one job, for a look at it."""
    return (
        Job.objects.for_system().filter(pk=job_id).select_related("tenant", "placement__tenant", "placement__cluster")
    )


def due_readers() -> list[str]:
    """Ids of jobs whose event files are to be looked for now."""
    return clusters.due(EventReader.objects.all())


def known_readers(ids: set[str]) -> set[str]:
    """Those of some ids that have a row."""
    return set(EventReader.objects.filter(pk__in=ids).values_list("pk", flat=True))


def waiting_readers(cluster_id: int) -> list[str]:
    """Ids of those that waited for a cluster which answers again."""
    return clusters.waiting(EventReader.objects.filter(job__placement__cluster_id=cluster_id))


def reader_rows(job_id: str) -> QuerySet[EventReader]:
    """The row of one job's event files, for a look at it."""
    return EventReader.objects.filter(pk=job_id).select_related(
        "job__tenant", "job__placement__tenant", "job__placement__cluster"
    )


def due_boards() -> list[str]:
    """Ids of TensorBoards to look at now."""
    return clusters.due(Board.objects.all())


def known_boards(ids: set[str]) -> set[str]:
    """Those of some ids that have a row."""
    return set(Board.objects.filter(pk__in=ids).values_list("pk", flat=True))


def waiting_boards(cluster_id: int) -> list[str]:
    """Ids of those that waited for a cluster which answers again."""
    return clusters.waiting(Board.objects.filter(job__placement__cluster_id=cluster_id))


def board_rows(board_id: str) -> QuerySet[Board]:
    """The row of one TensorBoard, for a look at it."""
    return Board.objects.filter(pk=board_id).select_related(
        "job__tenant", "job__placement__tenant", "job__placement__cluster"
    )
