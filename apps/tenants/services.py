"""A tenant's place in a cluster: asked for by an operator, made step by step by the reconciler."""

from __future__ import annotations

from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.tenants.models import Placement

__all__ = ["Placement", "ask_placement", "due_placements", "placement_of", "placements_of"]

PLACEMENT_ASKED = audit.action(
    "tenant.placement", _("{actor} gave the tenant a place in {cluster}: {gpus} GPUs"), name=_("Give a tenant a place")
)


def placement_of(tenant_id: int) -> Placement | None:
    """Where the tenant's jobs go, or None while it has no place in a cluster."""
    return Placement.objects.for_system().select_related("tenant", "cluster").filter(tenant_id=tenant_id).first()


def placements_of(tenant_ids: list[int]) -> list[Placement]:
    """The places of several tenants, in one query."""
    rows = Placement.objects.for_system().select_related("tenant", "cluster").filter(tenant_id__in=tenant_ids)
    return list(rows.order_by("tenant__slug"))


@audit.use_case(PLACEMENT_ASKED)
def ask_placement(actor: Actor, *, tenant_id: int, slug: str, cluster_id: int, gpus: int) -> Placement:
    """Give a tenant a namespace and a queue limited to `gpus` in a cluster; asked again, it changes the limit."""
    actor.require(Permission.TENANT_PROVISION, target=f"tenant:{tenant_id}")
    placement, _created = Placement.objects.for_system().update_or_create(
        tenant_id=tenant_id,
        cluster_id=cluster_id,
        defaults={
            "namespace": f"tenant-{slug}",
            "queue": f"tenant-{slug}",
            "gpus": gpus,
            "state": Placement.State.ASKED,
            "due_at": Now(),
        },
    )
    audit.record(
        PLACEMENT_ASKED, actor, f"tenant:{tenant_id}", tenant_id=tenant_id, cluster=placement.cluster.name, gpus=gpus
    )
    wake("tenants.reconcile_placement", placement.pk)
    return placement


def due_placements() -> list[int]:
    """Placements whose look-again time has come."""
    return list(Placement.objects.for_system().filter(due_at__lte=Now()).values_list("pk", flat=True)[:100])


def may_follow_tenant(actor: Actor, tenant_id: str) -> bool:
    """Whether an open page of this person may hear that something changed in the tenant."""
    return tenant_id.isascii() and tenant_id.isdigit() and actor.may(Permission.TENANT_VIEW, int(tenant_id))
