"""One step towards the place a tenant was promised."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from apps.adapters.errors import Conflict, Refused, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.clusters.services.connect import connect
from apps.streams.services import hint
from apps.tenants.domain import place_manifests
from apps.tenants.models import Placement

AGAIN = timedelta(minutes=10)
RETRY = timedelta(seconds=2)


def reconcile_placement(placement: Placement) -> None:
    """Apply every object of the place (a repeat changes nothing), then wait for the queue to be open.

    A job is refused while its queue's status is not Open, so the place is ready only then.
    """
    try:
        api = connect(placement.cluster)
        for manifest in place_manifests(
            tenant=placement.tenant.slug,
            namespace=placement.namespace,
            queue=placement.queue,
            accelerator=placement.accelerator,
            gpus=placement.gpus,
        ):
            api.apply(objects.object_path(manifest), manifest)
        state = Placement.State.READY if _is_open(api, placement.queue) else Placement.State.ASKED
        _save(placement, state, "", AGAIN if state == Placement.State.READY else timedelta(seconds=1))
    except (Unavailable, Conflict, RightMissing) as error:
        # A conflict is another worker making the same object at this moment; a right is missing for a moment after the
        # API server's start.
        _save(placement, placement.state, error.text, RETRY)
    except Refused as error:
        _save(placement, Placement.State.FAILED, error.text, AGAIN)


def _is_open(api: KubeApi, queue: str) -> bool:
    found = api.get(objects.path(objects.QUEUE, name=queue))
    return bool(found.get("status", {}).get("state") == "Open")


def _save(placement: Placement, state: str, problem: str, again: timedelta) -> None:
    changed = (placement.state, placement.problem) != (state, problem)
    Placement.objects.for_system().filter(pk=placement.pk).update(
        state=state, problem=problem, due_at=timezone.now() + again
    )
    if changed:
        hint(f"tenant.{placement.tenant_id}")
