"""What the reconciler saw of a place, kept, recorded and told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, DateTimeField, F, Value, When
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.clusters.services.registry import Owner
from apps.notices import services as notices
from apps.quotas import services as quotas
from apps.streams.services import hint
from apps.tenants.domain.drift import Found
from apps.tenants.models import Placement, TenantRequest

CONTROL = Actor.system("tenants")
READY = audit.action(
    "tenant.ready", _("The tenant's place in {cluster} is ready"), name=_("A tenant's place becomes ready")
)
DRIFTED = audit.action(
    "tenant.drift",
    _("{actor} found objects of the tenant changed or missing in {cluster}: {objects}"),
    name=_("A tenant's objects are changed in the cluster"),
)
GONE = audit.action(
    "tenant.gone", _("The tenant was removed from {cluster}"), name=_("A tenant is removed from a cluster")
)
TOLD_READY = notices.kind(
    "tenant.ready", _("Tenant {name} is ready in {cluster}"), name=_("A tenant is ready"), icon="building", tone="green"
)
TOLD_DRIFT = notices.kind(
    "tenant.drift",
    _("{name}: {objects} differ in {cluster} from what was applied"),
    name=_("A tenant's objects are changed in the cluster"),
    icon="alert-triangle",
    tone="amber",
)


@dataclass(frozen=True)
class Look:
    """The outcome of a look. `steps` is None, and `looked` False, when the cluster could not be asked to the end."""

    state: str
    again: datetime | None
    problem: str = ""
    steps: list[Found] | None = None
    looked: bool = False


@transaction.atomic
def keep(placement: Placement, look: Look) -> None:
    """Write what was seen, unless the place was asked to be something else meanwhile; then the row is due anyway."""
    here = Placement.objects.for_system().filter(pk=placement.pk, state=placement.state, round=placement.round)
    steps = placement.steps if look.steps is None else [one.to_row() for one in look.steps]
    now = timezone.now()
    first = look.state == Placement.State.READY and placement.ready_at is None
    kept = here.update(
        state=look.state,
        problem=look.problem,
        steps=steps,
        looked_at=now if look.looked else placement.looked_at,
        ready_at=now if first else placement.ready_at,
        # Whoever asked for a look while this one was under way gets one.
        due_at=Case(
            When(due_at=placement.due_at, then=Value(look.again)), default=F("due_at"), output_field=DateTimeField()
        ),
    )
    if not kept:
        return
    if (placement.state, placement.problem) != (look.state, look.problem) or _told(placement.steps) != _told(steps):
        hint(f"tenant.{placement.tenant_id}")
    _tell(placement, look, first=first)


def _told(steps: list[dict[str, object]]) -> list[object]:
    """What of the steps is on the page."""
    return [[step[key] for key in ("key", "state", "fields", "text")] for step in steps]


def _tell(placement: Placement, look: Look, *, first: bool) -> None:
    tenant, cluster = placement.tenant, placement.cluster
    about: dict[str, Any] = {"tenant_id": tenant.pk, "cluster": cluster.name}
    link = reverse("tenants:detail", args=[tenant.slug])
    if first:
        audit.record(READY, CONTROL, f"tenant:{tenant.pk}", **about)
        asked = TenantRequest.objects.for_system().filter(tenant=tenant, cluster=cluster)
        notices.tell(asked.values_list("asked_by_id", flat=True), TOLD_READY, link=link, name=tenant.name, **about)
    if look.state == Placement.State.GONE and placement.state != Placement.State.GONE:
        quotas.set_base(CONTROL, tenant.pk, placement.pool, 0)
        audit.record(GONE, CONTROL, f"tenant:{tenant.pk}", **about)
    known = {one.key for one in placement.off}
    news = [one for one in look.steps or [] if one.state in ("missing", "drifted") and one.key not in known]
    if news and look.looked and placement.is_standing:
        objects = ", ".join(f"{one.kind} {one.name}" for one in news)
        audit.record(DRIFTED, CONTROL, f"tenant:{tenant.pk}", **about, objects=objects)
        people = accounts.people_with(Permission.TENANT_REPAIR, tenant.pk)
        notices.tell(people, TOLD_DRIFT, link=link, name=tenant.name, objects=objects, **about)


def owners(actor: Actor) -> dict[tuple[int, str], Owner]:
    """Whose namespaces are, by cluster and namespace, of the tenants this person may see."""
    places = Placement.objects.visible_to(actor)
    rows = places.values_list("cluster_id", "namespace", "tenant__slug", "tenant__name")
    return {(cluster_id, namespace): Owner(slug, name) for cluster_id, namespace, slug, name in rows}
