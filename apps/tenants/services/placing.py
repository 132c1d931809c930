"""A tenant's place in a cluster: given by an operator, made step by step by the reconciler, restored when asked."""

from __future__ import annotations

from collections import Counter

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.clusters.services.catalogue import default_resource
from apps.quotas import services as quotas
from apps.streams.services import hint
from apps.tenants.domain.place import ACCOUNT, Place, namespace_of
from apps.tenants.domain.reach import Reach, portal_peer, read_peer
from apps.tenants.models import Placement

PLACEMENT_ASKED = audit.action(
    "tenant.placement",
    ngettext_lazy(
        "{actor} gave the tenant a place in {cluster}: {gpus} GPU",
        "{actor} gave the tenant a place in {cluster}: {gpus} GPUs",
        "gpus",
    ),
    name=_("Give a tenant a place"),
)
RESTORED = audit.action(
    "tenant.restored",
    _("{actor} asked to restore the tenant's objects in {cluster}: {objects}"),
    name=_("Restore a tenant's objects"),
)
TASK = "tenants.reconcile_placement"


class NotStanding(Exception):
    """The tenant is being removed from this cluster, or was; nothing was changed."""


def placement_of(tenant_id: int) -> Placement | None:
    """Where the tenant's jobs go, or None while it has no place in a cluster."""
    rows = Placement.objects.for_system().standing().select_related("tenant", "cluster")
    return rows.filter(tenant_id=tenant_id).order_by("pk").first()


def placements_of(tenant_ids: list[int]) -> list[Placement]:
    """The places of several tenants, in one query; of each tenant, the one where its jobs go first."""
    rows = Placement.objects.for_system().standing().select_related("tenant", "cluster")
    return list(rows.filter(tenant_id__in=tenant_ids).order_by("tenant__slug", "pk"))


def place_of(placement: Placement) -> Place:
    """What a place is to be made from, as things stand now."""
    slug = placement.tenant.slug
    prefix = settings.PORTAL_CLUSTER_GROUP_PREFIX
    return Place(
        tenant=slug,
        namespace=placement.namespace,
        queue=placement.queue,
        accelerator=placement.accelerator,
        gpus=quotas.use(placement.tenant_id, placement.pool).limit,
        reach=reach(),
        readers=tuple(prefix + group for group in accounts.groups_of_tenant(slug).values()),
    )


def account_of(slug: str) -> tuple[str, str]:
    """Namespace and name of the service account that the portal speaks as in the tenant's name, in every cluster. It
    follows from who the tenant is, not from where its work is to go: a wrong place is refused there."""
    return namespace_of(slug), ACCOUNT


def doubt(placement: Placement) -> None:
    """Something the place should give was not there: look now, not at the next time."""
    Placement.objects.for_system().standing().filter(pk=placement.pk).update(due_at=Now())
    wake(TASK, placement.pk)


def reach() -> Reach:
    """What every tenant's pods may reach beyond their namespace: the portal, and what operators have named."""
    portal = portal_peer(settings.PODS_URL)
    return Reach(
        to=(*([portal] if portal else []), *map(read_peer, settings.PORTAL_TENANT_EGRESS)),
        by=tuple(map(read_peer, settings.PORTAL_TENANT_INGRESS)),
    )


@audit.use_case(PLACEMENT_ASKED)
def ask_placement(actor: Actor, *, tenant_id: int, slug: str, cluster_id: int, gpus: int) -> Placement:
    """Give a tenant a namespace and a queue in a cluster, and `gpus` of its accelerators lastingly; asked again, it
    changes that number.

    Raises NotStanding while the tenant is being removed from there; once it is gone, its place is made anew. Raises
    clusters.Closed for a new place where nothing new may begin.
    """
    actor.require(Permission.TENANT_PROVISION, target=f"tenant:{tenant_id}")
    cluster = clusters.for_system().get(pk=cluster_id)
    stands = Placement.objects.for_system().standing().filter(tenant_id=tenant_id, cluster_id=cluster_id)
    if not cluster.is_open and not stands.exists():
        raise clusters.Closed(clusters.closed_text(cluster))
    made = {"namespace": namespace_of(slug), "queue": f"tenant-{slug}", "accelerator": accelerator_of(cluster)}
    placement, created = Placement.objects.for_system().get_or_create(
        tenant_id=tenant_id, cluster_id=cluster_id, defaults=made
    )
    here = Placement.objects.for_system().filter(pk=placement.pk)
    if not created:
        if placement.state == Placement.State.LEAVING:
            raise NotStanding
        if placement.state == Placement.State.GONE:
            here.update(state=Placement.State.ASKED, steps=[], ready_at=None, looked_at=None, round=F("round") + 1)
        here.update(due_at=Now())
    quotas.set_base(actor, tenant_id, placement.pool, gpus)
    placement.refresh_from_db()
    audit.record(PLACEMENT_ASKED, actor, f"tenant:{tenant_id}", tenant_id=tenant_id, cluster=cluster.name, gpus=gpus)
    wake(TASK, placement.pk)
    hint(f"tenant.{tenant_id}")
    return placement


def accelerator_of(cluster: clusters.Cluster) -> str:
    """The extended resource that most of the cluster's accelerators are counted by."""
    counted: Counter[str] = Counter()
    for node in clusters.nodes(cluster):
        if node.resource:
            counted[node.resource] += node.total
    return counted.most_common(1)[0][0] if counted else default_resource()


def follow_limit(tenant_id: int, pool: quotas.Pool) -> None:
    """A limit has changed: quota and queue in the cluster follow at the next look, which is now."""
    rows = Placement.objects.for_system().standing()
    rows = rows.filter(tenant_id=tenant_id, cluster__slug=pool.cluster, accelerator=pool.resource)
    for pk in list(rows.values_list("pk", flat=True)):
        Placement.objects.for_system().filter(pk=pk).update(due_at=Now())
        wake(TASK, pk)


@audit.use_case(RESTORED)
def restore(actor: Actor, *, placement: Placement) -> None:
    """Ask for everything of the place to be applied once more. Raises NotStanding."""
    actor.require(Permission.TENANT_REPAIR, placement.tenant_id, target=f"tenant:{placement.tenant_id}")
    here = Placement.objects.for_system().standing().filter(pk=placement.pk)
    if not here.update(round=F("round") + 1, due_at=Now()):
        raise NotStanding
    audit.record(
        RESTORED,
        actor,
        f"tenant:{placement.tenant_id}",
        tenant_id=placement.tenant_id,
        cluster=placement.cluster.name,
        objects=", ".join(f"{one.kind} {one.name}" for one in placement.off) or "–",
    )
    wake(TASK, placement.pk)
    hint(f"tenant.{placement.tenant_id}")


def look_again(actor: Actor, *, placement: Placement) -> None:
    """Ask for a look now, without waiting for the next. It changes nothing, so it is not recorded."""
    actor.require(Permission.TENANT_VIEW, placement.tenant_id, target=f"tenant:{placement.tenant_id}")
    Placement.objects.for_system().exclude(state=Placement.State.GONE).filter(pk=placement.pk).update(due_at=Now())
    wake(TASK, placement.pk)


def due_placements() -> list[int]:
    """Placements whose look-again time has come."""
    return list(Placement.objects.for_system().filter(due_at__lte=Now()).values_list("pk", flat=True)[:100])


def may_follow_tenant(actor: Actor, tenant_id: str) -> bool:
    """Whether an open page of this person may hear that something changed in the tenant."""
    return tenant_id.isascii() and tenant_id.isdigit() and actor.may(Permission.TENANT_VIEW, int(tenant_id))
