"""What the audit log knows of tenants and of the requests they began with."""

from __future__ import annotations

from django.urls import reverse

from apps.tenants.models import Placement, TenantRequest

_slugs: dict[int, str] = {}
"""By tenant id; a slug never changes."""


def tenant_page(key: str) -> str:
    """The address of a tenant's page, "" for one that never had a place."""
    if (pk := _number(key)) not in _slugs:
        found = Placement.objects.for_system().filter(tenant_id=pk).values_list("tenant__slug", flat=True).first()
        if found is None:
            return ""
        _slugs[pk] = found
    return reverse("tenants:detail", args=[_slugs[pk]])


def request_page(key: str) -> str:
    """The address of a request's page."""
    return reverse("tenants:request", args=[key]) if _number(key) else ""


def requests_of(key: str) -> list[str]:
    """The requests that a tenant began with, as targets."""
    found = TenantRequest.objects.for_system().filter(tenant_id=_number(key)).values_list("pk", flat=True)
    return [f"tenant-request:{pk}" for pk in found]


def tenant_of(key: str) -> list[str]:
    """The tenant that a request led to, as a target."""
    found = TenantRequest.objects.for_system().filter(pk=_number(key)).exclude(tenant=None)
    return [f"tenant:{pk}" for pk in found.values_list("tenant_id", flat=True)]


def _number(key: str) -> int:
    """The key as an id; 0, which nothing has, for one that is none."""
    return int(key) if key.isascii() and key.isdigit() and len(key) < 19 else 0
