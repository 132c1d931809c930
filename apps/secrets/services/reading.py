"""Which secrets there are, and what uses them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import ngettext

from apps.accounts.types import Actor
from apps.secrets.models import Secret
from apps.secrets.services.registry import Use, uses


def names_visible(actor: Actor, tenant_id: int) -> list[str]:
    """Names of the tenant's secrets that this person may see, in order."""
    rows = Secret.objects.visible_to(actor).filter(tenant_id=tenant_id)
    return list(rows.order_by("name").values_list("name", flat=True))


def names_of(tenant_id: int) -> list[str]:
    """Names of all secrets that work of this tenant can be given, in order."""
    rows = Secret.objects.for_system().live().filter(tenant_id=tenant_id)
    return list(rows.order_by("name").values_list("name", flat=True))


def exists(tenant_id: int, name: str) -> bool:
    """Whether work of this tenant can be given that secret."""
    return not missing(tenant_id, [name])


def missing(tenant_id: int, names: Iterable[str]) -> list[str]:
    """Those of some names that are no secret of this tenant, in their order."""
    names = list(names)
    rows = Secret.objects.for_system().live().filter(tenant_id=tenant_id, name__in=names)
    known = set(rows.values_list("name", flat=True))
    return [name for name in names if name not in known]


def secrets_of(actor: Actor, slug: str = "") -> QuerySet[Secret]:
    """The secrets an actor may see (of one tenant), newest first."""
    rows = Secret.objects.visible_to(actor).select_related("tenant", "changed_by")
    rows = rows.filter(tenant__slug=slug) if slug else rows
    return rows.order_by("-pk")


def left_behind(tenant_id: int) -> list[tuple[str, str]]:
    """What a tenant would leave in the store when it goes: a sentence and where it is removed; nothing for nothing."""
    rows = Secret.objects.for_system().live().filter(tenant_id=tenant_id)
    slug = rows.values_list("tenant__slug", flat=True).first()
    if slug is None:
        return []
    n = rows.count()
    text = ngettext(
        "{n} secret is stored for it, which a data scientist or team admin removes.",
        "{n} secrets are stored for it, which a data scientist or team admin removes.",
        n,
    )
    return [(text.format(n=n), f"{reverse('secrets:list')}?tenant={slug}")]


@dataclass(frozen=True)
class Used:
    """A secret with the unfinished work that names it."""

    secret: Secret
    uses: list[Use]


def with_uses(rows: Iterable[Secret]) -> list[Used]:
    """Some secrets with what uses them, in one question to each kind of work."""
    rows = list(rows)
    by_place: dict[tuple[int, str], list[Use]] = {}
    for use in uses({row.tenant_id for row in rows}):
        by_place.setdefault((use.tenant_id, use.name), []).append(use)
    return [Used(row, by_place.get((row.tenant_id, row.name), [])) for row in rows]
