"""Wanted against seen: one look at a job's cluster, one step, one move."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from apps.adapters.errors import Conflict, NotFound, Refused, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import AccountMissing, RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.adapters.kubernetes.owned import ForeignObject, find
from apps.adapters.retrying import pause
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect, connect_for
from apps.jobs import moves
from apps.jobs.domain import manifests
from apps.jobs.domain.lifecycle import UNEXPLAINED, Act, Decision, Reason, Seen, decide, failure
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.domain.seen import read_seen
from apps.jobs.models import Job, JobRank
from apps.jobs.reconcile import delivery
from apps.jobs.reconcile.losswatch import watch_loss
from apps.jobs.reconcile.said import events_of
from apps.jobs.services import away, reading
from apps.jobs.services.background import keep_rank
from apps.jobs.services.losswatch import WATCH
from apps.jobs.services.why import judged
from apps.secrets.services.store import Gone
from apps.streams.services import hint
from apps.tenants import services as tenants

log = structlog.get_logger(__name__)

LOOK_AGAIN, LOOK_RARELY = timedelta(seconds=30), timedelta(minutes=5)
"""The watch tells of changes; these looks are for what it could not tell. The longer a job waits or runs, the rarer."""
SOON = timedelta(seconds=1)
LONGEST = timedelta(seconds=5)
"""While a cluster is away, tries come at most this far apart, so that accepted work goes in soon after its return."""

# Volcano's webhook refuses a job until its own cache has seen the queue open, a moment after everybody else has.
_QUEUE_NOT_SEEN = re.compile(r"queue.*state.*\bOpen\b|state of queue|queue .*not found", re.IGNORECASE | re.DOTALL)
QUEUE_GRACE = timedelta(seconds=20)
REFUSED_AGAIN = timedelta(minutes=1)
MAINTENANCE_AGAIN = timedelta(seconds=10)
NO_ACCOUNT = "waiting.account"


_PLACED_OR_NOT = frozenset({Phase.WAITING, Phase.STARTING, Phase.RUNNING})


def reconcile_job(job: Job) -> timedelta | None:
    """Take one repeatable step; any worker may take it twice. Returns when to look again, None for never."""
    try:
        if job.state is Phase.SUBMITTED and job.wanted == Wanted.RUN and not job.placement.is_ready:
            moves.move(job, Phase.SUBMITTED, moves.Facts(job.attempt, Reason("waiting.placement")))
            return SOON
        # What is there is seen with the portal's own account, even when the tenant's is gone. What is done is done with
        # that of the tenant that the job belongs to.
        hand = connect_for(job.placement.cluster, tenants.account_of(job.tenant.slug))
        step = _step(connect(job.placement.cluster), hand, job)
        if job.running_at is not None:
            watch_loss(job.pk)  # the message that told of figures may be lost
        if job.state.is_final and job.spec.secrets:
            delivery.take_back(hand, job)
        if job.failures:
            Job.objects.for_system().filter(pk=job.pk).update(failures=0)
        return step
    except moves.Stale:
        return timedelta(0)
    except Unavailable as error:
        return _wait(job, error, "waiting.secrets" if error.system == "secrets" else away.REASON)
    except RightMissing as error:
        if isinstance(error, AccountMissing) and job.state.is_final and not job.placement.is_standing:
            return None  # the tenant is leaving, and what was left of the job goes with its namespace
        return _wait(job, error, _lacking(job, error))
    except Refused as error:
        # Not the job's fault but ours: a kind is missing. Kept, and seen by whoever reads the log.
        log.error("cluster_refused_a_look", job=job.pk, error=error.text)
        return REFUSED_AGAIN


def _lacking(job: Job, error: RightMissing) -> str:
    """Which right is missing: the portal's own, or the tenant's account's, which its place can be given anew."""
    if error.account != tenants.account_of(job.tenant.slug):
        return "waiting.right"
    if not job.failures:
        tenants.doubt(job.placement)
    return NO_ACCOUNT


def _step(eye: KubeApi, hand: KubeApi, job: Job) -> timedelta | None:
    try:
        seen = look(eye, job)
    except ForeignObject:
        if not job.state.is_final:
            moves.move(job, Phase.FAILED, moves.Facts(job.attempt, Reason("failed.conflict")))
        return None
    decision = decide(job.state, Wanted(job.wanted), seen, known_uid=job.object_uid, ranks=job.spec.ranks)
    if seen:
        _keep_ranks(job, seen)
        # The answer to our apply may have been lost: what is there under our label is ours.
        if not job.object_uid and not job.state.is_final:
            _keep_uid(job, seen.uid)
    begins = decision.act in (Act.APPLY, Act.RESUME)
    if begins and job.placement.cluster.maintenance_since is not None:
        moves.move(job, decision.phase, moves.Facts(job.attempt, Reason("waiting.maintenance")))
        return MAINTENANCE_AGAIN
    if decision.act is Act.APPLY:
        return _apply(hand, job)
    _act(hand, job, decision, seen)
    if job.state.is_final:
        return None
    attempt = _attempt(job, seen, decision)
    if attempt > job.attempt and {job.state, decision.phase} <= _PLACED_OR_NOT:
        # A gang can break and be put together again between two looks. Its history tells why all the same.
        broke = Decision(Phase.RESTARTING, reason=Reason(UNEXPLAINED))
        moves.take(job, _with_cause(job, broke, attempt), attempt)
    if decision.phase is Phase.WAITING:
        decision = Decision(decision.phase, decision.act, judged(job, decision.reason))
    moves.take(job, _with_people(job, _with_cause(job, decision, attempt)), attempt)
    if job.state.is_final:
        return None
    return SOON if decision.act is not Act.NONE else _again(job)


def _again(job: Job) -> timedelta:
    lasted = timezone.now() - (job.running_at or job.created_at)
    return min(max(LOOK_AGAIN, lasted / 4), LOOK_RARELY)


def _attempt(job: Job, seen: Seen | None, decision: Decision) -> int:
    """Which run this is. Volcano counts the last failure as a retry too, though no run follows it."""
    if decision.phase.is_final:
        return JobRank.objects.filter(job=job).aggregate(newest=Max("attempt"))["newest"] or job.attempt
    return seen.retries + 1 if seen else job.attempt


def look(api: KubeApi, job: Job) -> Seen | None:
    """What the cluster shows of a job, or None when it knows no such object."""
    place = reading.place(job.placement)
    name = manifests.object_name(job.pk)
    found = find(api, _path(job, place), (manifests.JOB_LABEL, job.pk))
    if found is None:
        return None
    pods = api.list(objects.path(objects.POD, place.namespace), label_selector=f"{manifests.JOB_LABEL}={job.pk}")
    waiting = not any(pod.get("spec", {}).get("nodeName") for pod in pods)
    group = None
    events: list[dict[str, object]] = []
    waiting &= job.wanted == Wanted.RUN  # why it waits is told of no job that is to end
    if waiting and found.get("status", {}).get("state", {}).get("phase", "Pending") == "Pending":
        gang = f"{name}-{found['metadata']['uid']}"
        with suppress(NotFound):
            group = api.get(objects.path(objects.POD_GROUP, place.namespace, gang))
        events = events_of(job.placement.cluster_id, api, place.namespace, (gang, name))
    return read_seen(found, pods, group, events)


def _path(job: Job, place: manifests.Place) -> str:
    return objects.path(objects.VOLCANO_JOB, place.namespace, manifests.object_name(job.pk))


def _apply(api: KubeApi, job: Job) -> timedelta | None:
    """Send the job's objects; the same apply again changes nothing. A refusal ends the job with the cluster's text."""
    place = reading.place(job.placement)
    try:
        if job.spec.secrets:
            delivery.bring(api, job)
        for manifest in manifests.job_manifests(job.pk, job.spec, place, uid=job.object_uid):
            applied = api.apply(objects.object_path(manifest), manifest)
    except RightMissing:
        raise
    except Gone as gone:
        moves.move(job, Phase.FAILED, moves.Facts(job.attempt, Reason("failed.secret", {"name": gone.name})))
        return None
    except Refused as error:
        if _QUEUE_NOT_SEEN.search(error.text) and timezone.now() - job.created_at < QUEUE_GRACE:
            return SOON
        code = "failed.conflict" if isinstance(error, Conflict) else "failed.refused"
        moves.move(job, Phase.FAILED, moves.Facts(job.attempt, Reason(code, {"text": error.text[:500]})))
        return None
    uid = applied.object["metadata"]["uid"]
    moves.move(job, Phase.WAITING, moves.Facts(job.attempt, Reason("waiting.scheduler"), uid))
    return SOON


def _act(api: KubeApi, job: Job, decision: Decision, seen: Seen | None) -> None:
    place = reading.place(job.placement)
    if decision.act is Act.DELETE and seen:
        api.delete(_path(job, place), uid=seen.uid)
    elif decision.act in (Act.ABORT, Act.RESUME) and seen:
        action = "AbortJob" if decision.act is Act.ABORT else "ResumeJob"
        # One command per retry: Volcano eats a command when it has run it, and a second one would count a retry again.
        command = manifests.command_manifest(job.pk, place, seen.uid, action, seen.retries)
        try:
            api.create(objects.path(objects.VOLCANO_COMMAND, place.namespace), command)
        except Conflict:
            log.info("command_already_sent", job=job.pk, action=action)


def _with_cause(job: Job, decision: Decision, attempt: int) -> Decision:
    """Say which rank broke it. What was kept of each rank tells more than what is seen: a gang's pods go with it."""
    if decision.reason.code not in ("failed.exit", UNEXPLAINED):
        return decision
    if job.state is Phase.SUSPENDED or (job.state is decision.phase is Phase.RESTARTING and not job.reason):
        return Decision(decision.phase, decision.act)  # people let it go on: nothing broke
    kept = JobRank.objects.filter(job=job, attempt__gte=attempt - 1)
    return Decision(decision.phase, decision.act, failure(kept))


def _with_people(job: Job, decision: Decision) -> Decision:
    """Say who ended or paused it, where a person did."""
    codes = {Phase.STOPPED: "stopped.by", Phase.SUSPENDED: "suspended.by"}
    if decision.phase not in codes or job.wanted == Wanted.RUN:
        return decision
    if decision.phase is Phase.SUSPENDED and job.wanted_by == WATCH.name:
        return Decision(decision.phase, decision.act, Reason("suspended.watch"))
    return Decision(decision.phase, decision.act, Reason(codes[decision.phase], {"name": job.wanted_by}))


def _keep_uid(job: Job, uid: str) -> None:
    if uid != job.object_uid:
        Job.objects.for_system().filter(pk=job.pk).update(object_uid=uid)
        job.object_uid = uid


def _keep_ranks(job: Job, seen: Seen) -> None:
    """Write what was seen of each pod; a rank that ended keeps its end when the pod is gone."""
    known = {rank.pod_uid: rank for rank in JobRank.objects.filter(job=job)}
    if not known and not seen.ranks:
        return  # as at most looks at a job that waits
    with transaction.atomic():
        changed = _write_ranks(job, seen, known)
    if changed:
        hint(job.topic)


def _write_ranks(job: Job, seen: Seen, known: Mapping[str, JobRank]) -> bool:
    """Whether anything is news."""
    changed = False
    for rank in seen.ranks:
        values = {
            "job_id": job.pk,
            "pod_name": rank.name,
            "attempt": rank.attempt,
            "rank": rank.rank,
            "node": rank.node,
            "phase": rank.phase,
            "waiting": rank.waiting[:80],
            "message": rank.message[:500],
            "exit_code": rank.exit_code,
            "end_reason": rank.end_reason[:80],
            "started_at": rank.started_at,
            "ended_at": rank.ended_at,
        }
        row = known.get(rank.uid)
        if row is None or any(getattr(row, key) != value for key, value in values.items()):
            changed |= keep_rank(rank.uid, values)
    alive = JobRank.objects.filter(job=job, phase__in=("Running", "Pending"))
    gone = alive.exclude(pod_uid__in=[rank.uid for rank in seen.ranks])
    return bool(gone.update(phase="Gone", ended_at=timezone.now())) or changed


def _wait(job: Job, error: Unavailable | RightMissing, code: str) -> timedelta:
    """Keep the job, say what it waits for, and try again: soon at first, at most LONGEST apart. Where the watch has
    seen it too, the watch says when."""
    failures = job.failures + 1
    Job.objects.for_system().filter(pk=job.pk).update(failures=failures)
    if job.state is Phase.SUBMITTED or (code == NO_ACCOUNT and not job.state.is_final):
        moves.move(job, job.state, moves.Facts(job.attempt, Reason(code)))
    log.warning("cluster_unavailable", job=job.pk, error=error.text, failures=failures)
    if isinstance(error, Unavailable) and clusters.is_silent(job.placement.cluster_id):
        return away.UNTIL_ANSWERED
    return pause(error, failures, LONGEST)
