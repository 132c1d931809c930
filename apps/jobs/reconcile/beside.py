"""What the looks at pods beside a job have in common: to find one, to take it away, to know whether it could read."""

from __future__ import annotations

from datetime import timedelta

from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.jobs.domain import manifests
from apps.jobs.models import Job
from apps.jobs.reconcile.job import ForeignObject

FOR_MANY = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def find(api: KubeApi, namespace: str, name: str, label: tuple[str, str]) -> objects.Object | None:
    """The pod of this name. Raises ForeignObject where it has not our label: it is not ours to change or to delete."""
    path = objects.path(objects.POD, namespace, name)
    try:
        found = api.get(path)
    except NotFound:
        return None
    if (found["metadata"].get("labels") or {}).get(label[0]) != label[1]:
        raise ForeignObject(path)
    return found


def take_away(api: KubeApi, pod: objects.Object) -> None:
    """Delete this very pod, unless somebody has."""
    about = pod["metadata"]
    if not about.get("deletionTimestamp"):
        api.delete(objects.path(objects.POD, about["namespace"], about["name"]), uid=about["uid"])


def why_unreadable(hand: KubeApi, job: Job) -> str:
    """Why a pod could not read the job's volume now: "no-volume", "one-at-a-time" where it is the job's alone while
    that runs, "" where it could."""
    path = objects.path(objects.VOLUME_CLAIM, job.placement.namespace, manifests.object_name(job.pk))
    try:
        claim = hand.get(path)
    except NotFound:
        return "no-volume"
    modes = set((claim.get("spec") or {}).get("accessModes") or ())
    return "" if job.state.is_final or modes & FOR_MANY else "one-at-a-time"


def pause(error: Unavailable | RightMissing, failures: int, longest: timedelta) -> timedelta:
    """Until the next try after so many that failed: soon at first."""
    least = error.retry_after if isinstance(error, Unavailable) else 0
    return min(timedelta(seconds=max(least, 2.0 ** min(failures, 10) / 2)), longest)
