"""What of tenants lives in a cluster, and would be orphaned without it."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.clusters.services import Occupant
from apps.secrets import services as secrets
from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services.leaving import Blocker, blockers_of


def secrets_left(placement: Placement) -> list[Blocker]:
    """What the tenant would leave in the secrets server with its last place; while it has another, it uses it there."""
    others = Placement.objects.for_system().standing().filter(tenant_id=placement.tenant_id).exclude(pk=placement.pk)
    return [] if others.exists() else [Blocker(*one) for one in secrets.left_behind(placement.tenant_id)]


def occupants(cluster_id: int) -> list[Occupant]:
    """Places of tenants with everything that is in them, and open requests for more places."""
    here = Placement.objects.for_system().filter(cluster_id=cluster_id).exclude(state=Placement.State.GONE)
    found = []
    for place in here.select_related("tenant").order_by("tenant__slug"):
        url = reverse("tenants:detail", args=[place.tenant.slug])
        found.append(Occupant(_("{name} has its place here.").format(name=place.tenant.name), url))
        found += [Occupant(f"{place.tenant.name}: {one.text}", one.url) for one in blockers_of(place)]
    for asked in TenantRequest.objects.for_system().open().filter(cluster_id=cluster_id).order_by("pk"):
        text = _("The tenant {name} is asked for here.").format(name=asked.name)
        found.append(Occupant(text, reverse("tenants:request", args=[asked.pk])))
    return found
