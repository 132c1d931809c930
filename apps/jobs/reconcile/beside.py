"""What the looks at pods beside a job have in common: to take one away, to know whether it could read."""

from __future__ import annotations

from apps.adapters.errors import NotFound
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.calls import KubeApi
from apps.jobs.domain import manifests
from apps.jobs.models import Job

FOR_MANY = frozenset({"ReadWriteMany", "ReadOnlyMany"})


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
