"""The teams, and finding one or a person by the name somebody typed."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from apps.accounts.domain import Role, tenant_groups
from apps.accounts.models import Membership, Tenant, User
from apps.accounts.types import Actor, Permission
from apps.audit import services as audit

TENANT_CREATED = audit.action("tenant.created", _("{actor} created the tenant {name}"), name=_("Create a tenant"))


def tenant_of(actor: Actor, slug: str) -> Tenant | None:
    """The tenant of that slug, if the actor may see jobs in it; somebody else's is as good as none."""
    tenant = Tenant.objects.filter(slug=slug).first()
    return tenant if tenant and actor.may(Permission.JOB_VIEW, tenant.pk) else None


def tenant_id_of(actor: Actor, slug: str) -> int | None:
    """Its id alone, for the audit log's pages."""
    tenant = tenant_of(actor, slug)
    return tenant.pk if tenant else None


@audit.use_case(TENANT_CREATED)
def ensure_tenant(actor: Actor, *, slug: str, name: str) -> Tenant:
    """The tenant of that slug, created if there is none. Its members come from the provider's groups."""
    actor.require(Permission.TENANT_PROVISION, target=f"tenant:{slug}")
    tenant, created = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
    if created:
        audit.record(TENANT_CREATED, actor, f"tenant:{tenant.pk}", tenant_id=tenant.pk, name=name)
    return tenant


@dataclass(frozen=True)
class Member:
    """Somebody in a tenant, as the provider said at the last look."""

    name: str
    role: Role


def members_of(tenant_id: int, limit: int = 200) -> list[Member]:
    """Who is in a tenant, by name; people switched off are left out."""
    rows = Membership.objects.select_related("user").filter(tenant_id=tenant_id, user__is_active=True)
    return [Member(row.user.name, Role(row.role)) for row in rows.order_by("user__name", "pk")[:limit]]


def groups_of_tenant(slug: str) -> dict[Role, str]:
    """Which group of the identity provider gives which role in a tenant."""
    return tenant_groups(slug)


def actor_named(text: str) -> Actor | None:
    """The active person with that subject or e-mail address, who has signed in once; None if none or several match."""
    people = User.objects.filter(is_active=True)
    found = list(people.filter(sub=text)[:2]) or list(people.filter(email=text)[:2])
    return found[0].actor() if len(found) == 1 else None
