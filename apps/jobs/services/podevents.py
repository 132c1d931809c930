"""What the cluster says of a job's pods: kept as the watch tells it, and told in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.clusters import services as clusters
from apps.jobs.domain.podevents import OTHER, PodEvent, Told, code_of, together, words_kept
from apps.jobs.models import Job, JobEvent
from apps.streams.services import hint

KEPT = 4000
"""Events of a job; of more the oldest go."""

WORDS: Mapping[str, tuple[str, Promise]] = {
    "no-place": ("amber", _("There was no room for it")),
    "no-scale-up": ("amber", _("The cluster could not be enlarged for it")),
    "scale-up": ("grey", _("The cluster is being enlarged for it")),
    "preempted": ("red", _("It had to make way for other work")),
    "evicted": ("red", _("Its node ran short of something and put it out")),
    "taint": ("red", _("It was taken off its node, which nothing may run on any more")),
    "node-not-ready": ("red", _("Its node stopped being ready")),
    "node-shutdown": ("red", _("Its node is being shut down")),
    "image": ("red", _("Its image could not be pulled")),
    "image-wait": ("amber", _("Its image is asked for again after a pause")),
    "image-name": ("red", _("The name of its image is not valid")),
    "image-secret": ("amber", _("The secret for pulling its image is missing")),
    "mount": ("amber", _("A volume could not be mounted")),
    "sandbox": ("amber", _("Its sandbox could not be made")),
    "network": ("amber", _("The network of its node is not ready")),
    "admission": ("red", _("Its node could not give it the devices it asks for")),
    "kubelet-refused": ("red", _("Its node refused it")),
    "start": ("red", _("Its container could not be started")),
    "crash-wait": ("red", _("It ended again, and is started anew after a pause")),
    "readiness": ("amber", _("Its readiness probe failed")),
    "startup": ("amber", _("Its startup probe failed")),
    "liveness": ("amber", _("Its liveness probe failed")),
    "probe-kill": ("red", _("It was ended because a probe failed")),
    "hook": ("amber", _("A command that belongs to its start or end failed")),
    "grace": ("amber", _("It did not end in time and was killed")),
    "kill": ("amber", _("It could not be ended")),
    "refused": ("amber", _("The cluster refuses to make its pods")),
    "claim": ("amber", _("A volume that it needs is missing")),
    "plugin": ("amber", _("Volcano could not prepare it")),
}

ENDS: Mapping[str, Promise] = {
    "OOMKilled": _("it used more memory than it may"),
    "Evicted": _("its node ran short of something and put it out"),
    "TerminationByKubelet": _("its node put it out"),
    "Preempting": _("it had to make way for other work"),
    "PreemptionByScheduler": _("it had to make way for other work"),
    "PreemptionByKubeScheduler": _("it had to make way for other work"),
    "EvictionByEvictionAPI": _("somebody drained its node or evicted it"),
    "DeletionByTaintManager": _("nothing may run on its node any more"),
    "DeletionByPodGC": _("its node is gone"),
    "NodeLost": _("its node is gone"),
    "NodeShutdown": _("its node was shut down"),
    "Terminated": _("its node was shut down"),
    "DeadlineExceeded": _("it ran longer than it may"),
    "ContainerCannotRun": _("its container could not be started"),
    "StartError": _("its container could not be started"),
    "ContainerStatusUnknown": _("its node could not say how it ended"),
    "UnexpectedAdmissionError": _("its node could not give it the devices it asks for"),
}
"""Why a rank ended, by what the cluster calls it."""


def end_text(reason: str) -> str:
    """Why a rank ended, with the cluster's word for it; "" where it has none."""
    if not reason:
        return ""
    return f"{ENDS[reason]} ({reason})" if reason in ENDS else reason


def words(told: Told) -> tuple[str, str]:
    """Tone and sentence."""
    if told.code == OTHER or told.code not in WORDS:
        return "amber", gettext("The cluster warns of {reason}").format(reason=told.reason)
    tone, text = WORDS[told.code]
    return tone, str(text)


@transaction.atomic
def note_events(events: Sequence[clusters.PodEventSeen]) -> None:
    """Keep those that matter, each once as it was last told, and let open pages know of news."""
    coded = {}
    for event in events:
        if code := code_of(event.reason, event.message, is_warning=event.is_warning):
            coded[event.row_id, event.uid] = event, code
    ids = set(Job.objects.for_system().filter(pk__in={job for job, _uid in coded}).values_list("pk", flat=True))
    before = JobEvent.objects.filter(job_id__in=ids, uid__in=[uid for _job, uid in coded])
    known = {(job, uid): (count, at) for job, uid, count, at in before.values_list("job_id", "uid", "count", "at")}
    fresh = [
        _row(event, code)
        for key, (event, code) in coded.items()
        if event.row_id in ids and known.get(key) != (event.count, event.at)
    ]
    JobEvent.objects.bulk_create(
        fresh, update_conflicts=True, unique_fields=["job", "uid"], update_fields=["code", "message", "count", "at"]
    )
    for job_id in sorted({row.job_id for row in fresh}):
        _forget_oldest(job_id)
        hint(Job(pk=job_id).topic)


def _row(event: clusters.PodEventSeen, code: str) -> JobEvent:
    return JobEvent(
        job_id=event.row_id,
        uid=event.uid,
        code=code,
        reason=event.reason,
        message=words_kept(code, event.message),
        count=event.count,
        first_at=event.first,
        at=event.at,
        pod_name=event.pod_name,
        attempt=event.attempt,
        rank=event.rank,
        node=event.node,
    )


def _forget_oldest(job_id: str) -> None:
    rows = JobEvent.objects.filter(job_id=job_id)
    oldest = rows.order_by("-at", "-pk").values_list("at", flat=True)[KEPT : KEPT + 1].first()
    if oldest is not None:
        rows.filter(at__lte=oldest).delete()


def told_of(job: Job) -> list[Told]:
    """All that is kept of a job, the oldest first, with what happened to many ranks told once."""
    rows = JobEvent.objects.filter(job=job).order_by("-at", "-pk")[:KEPT]
    return together(
        PodEvent(
            row.uid, row.code, row.reason, row.message, row.count, row.first_at, row.at, row.pod_name, row.attempt,
            row.rank, row.node,
        )
        for row in rows
    )  # fmt: skip
