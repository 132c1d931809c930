"""What waits for a person's hand: requests to decide on, and tenants that were changed in their cluster."""

from __future__ import annotations

import uuid

from django.db.models import Q
from django.urls import reverse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.types import Actor, Permission
from apps.notices import services as notices
from apps.tenants.domain.drift import DRIFTED, MISSING, REFUSED, TAKEN
from apps.tenants.models import Placement, TenantRequest

SHOWN = 10


def waiting(actor: Actor) -> list[notices.Waiting]:
    """Both, the oldest first; of each only some."""
    return [*_decisions(actor), *_repairs(actor)]


def _decisions(actor: Actor) -> list[notices.Waiting]:
    if not actor.may(Permission.TENANT_DECIDE) or not actor.user_pk:
        return []
    rows = TenantRequest.objects.visible_to(actor).open().exclude(asked_by_id=uuid.UUID(actor.user_pk))
    return notices.first(rows.select_related("asked_by", "cluster").order_by("pk"), SHOWN, _decision)


def _decision(row: TenantRequest) -> notices.Waiting:
    text = ngettext(
        "Tenant {name} with {gpus} GPU is asked for", "Tenant {name} with {gpus} GPUs is asked for", row.gpus
    )
    return notices.Waiting(
        text.format(name=row.name, gpus=formats.number_format(row.gpus, use_l10n=True, force_grouping=True)),
        reverse("tenants:request", args=[row.pk]),
        row.asked_at,
        note=f"{row.asked_by.name} · {row.cluster.name}",
        act=_("Decide"),
        icon="building",
        tone="amber",
    )


def _repairs(actor: Actor) -> list[notices.Waiting]:
    tenants = actor.tenants_where(Permission.TENANT_REPAIR)
    off = Q()
    for state in (MISSING, DRIFTED, REFUSED, TAKEN):
        off |= Q(steps__contains=[{"state": state}])
    rows = Placement.objects.visible_to(actor).standing().filter(off)
    rows = rows if tenants is None else rows.filter(tenant_id__in=tenants)
    return notices.first(rows.select_related("tenant", "cluster").order_by("pk"), SHOWN, _repair)


def _repair(row: Placement) -> notices.Waiting:
    return notices.Waiting(
        _("{name} is not as it should be in {cluster}").format(name=row.tenant.name, cluster=row.cluster.name),
        reverse("tenants:detail", args=[row.tenant.slug]),
        row.looked_at,
        note=", ".join(f"{one.kind} {one.name}" for one in row.off),
        act=_("Look at it"),
        icon="alert-triangle",
        tone="amber",
        tenant_id=row.tenant_id,
    )
