"""The teams, and finding one or a person by the name somebody typed."""

from __future__ import annotations

from django.db.models import CharField, QuerySet, Value
from django.db.models.functions import Cast, Concat
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


def members_of(tenant_id: int, named: str = "") -> QuerySet[Membership]:
    """Who is in a tenant, with `place` to order them by name; people switched off are left out."""
    rows = Membership.objects.select_related("user").filter(tenant_id=tenant_id, user__is_active=True)
    found = rows.filter(user__name__icontains=named) if named else rows
    return found.annotate(place=Concat("user__name", Value("~"), Cast("pk", CharField())))


def groups_of_tenant(slug: str) -> dict[Role, str]:
    """Which group of the identity provider gives which role in a tenant."""
    return tenant_groups(slug)


def actor_named(text: str) -> Actor | None:
    """The active person with that subject or e-mail address, who has signed in once; None if none or several match."""
    people = User.objects.filter(is_active=True)
    found = list(people.filter(sub=text)[:2]) or list(people.filter(email=text)[:2])
    return found[0].actor() if len(found) == 1 else None
