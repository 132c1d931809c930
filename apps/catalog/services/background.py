"""What lower apps ask of models through their registries, and what background work does to rows."""

from __future__ import annotations

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.types import Actor, Permission
from apps.catalog.domain.moving import ENDED
from apps.catalog.models import Blob, ModelVersion, RegisteredModel, Transfer
from apps.catalog.services import staging
from apps.clusters import services as clusters
from apps.notices.services import Waiting, first
from apps.tenants.services import Blocker, Placement

MOST = 20


def due_transfers() -> list[str]:
    """Ids of transfers to look at now."""
    return clusters.due(Transfer.objects.all())


def due_blobs() -> list[str]:
    """Digests of bytes that nobody has any more."""
    return list(Blob.objects.filter(due_at__lte=Now()).values_list("pk", flat=True)[:100])


def known_transfers(ids: set[str]) -> set[str]:
    """Those of some ids that are transfers of ours."""
    return set(Transfer.objects.filter(pk__in=ids).values_list("pk", flat=True))


def may_follow_model(actor: Actor, model_id: str) -> bool:
    return RegisteredModel.objects.visible_to(actor).filter(pk=model_id).exists()


def may_follow_models(actor: Actor, _id: str) -> bool:
    """Whether an open list may hear that some model changed; which one it asks for itself."""
    return actor.may(Permission.MODEL_VIEW)


def blockers(placement: Placement) -> list[Blocker]:
    """What stands in the way of removing a tenant from a cluster: checkpoints being read from its volumes there."""
    n = Transfer.objects.filter(placement_id=placement.pk).exclude(phase__in=ENDED).count()
    if not n:
        return []
    text = ngettext("{n} checkpoint is being brought.", "{n} checkpoints are being brought.", n).format(n=n)
    return [Blocker(text, f"{reverse('catalog:list')}?tenant={placement.tenant.slug}")]


def relatives_of(model_id: str) -> list[str]:
    """What a model was made from and what serves it, as targets of the audit log."""
    versions = ModelVersion.objects.for_system().filter(model__id=model_id).values_list("lineage__job__id", flat=True)
    return sorted({f"job:{job_id}" for job_id in versions if job_id})


def waiting_for(actor: Actor) -> list[Waiting]:
    """Candidates that this actor may approve, for Home."""
    return first(staging.waiting_for(actor), MOST, _candidate)


def _candidate(version: ModelVersion) -> Waiting:
    return Waiting(
        _("{name} v{n} waits for approval").format(name=version.model.name, n=version.number),
        f"{reverse('catalog:model', args=[version.model_id])}?version={version.number}",
        version.created_at,
        note=_("{tenant} · registered by {who}").format(tenant=version.tenant.name, who=version.author.name),
        act=_("Look at it"),
        icon="package",
        tone="amber",
        tenant_id=version.tenant_id,
    )


def waiting_transfers(cluster_id: int) -> list[str]:
    """Ids of transfers that waited for a cluster which answers again."""
    return clusters.waiting(Transfer.objects.all().filter(placement__cluster_id=cluster_id))


def transfer_rows(transfer_id: str) -> QuerySet[Transfer]:
    """The row of one transfer, for a look at it."""
    return Transfer.objects.filter(pk=transfer_id).select_related(
        "version__model", "placement__tenant", "placement__cluster"
    )
