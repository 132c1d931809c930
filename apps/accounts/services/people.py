"""Who somebody is: the person behind the provider's claims, their roles, their name for others."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import OuterRef
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.domain import (
    GRANTS,
    GroupRoles,
    Permission,
    Role,
    groups_of_claims,
    person_name,
    roles_of_groups,
    verified_email,
)
from apps.accounts.models import Membership, Tenant, User
from apps.accounts.types import Actor
from apps.audit.services import action, record, use_case

ROLES_CHANGED = action(
    "accounts.roles-changed",
    _("The identity provider changed a role of {target}: {before} → {after}"),
    name=_("A role changes"),
)
PREFERENCES_SET = action("accounts.preferences-set", _("{actor} changed their settings"), name=_("Change settings"))

on_revoked: list[Callable[[str], None]] = []
"""Called after commit with `str(user.pk)` whenever a person lost a role or a session: open sockets look again.
Upper apps add to it in their AppConfig.ready()."""


def revoked(user_pk: object) -> None:
    """Tell everyone who keeps something open for this person to look again, once the change is committed."""
    for tell in on_revoked:
        transaction.on_commit(partial(tell, str(user_pk)), robust=True)


def roles_of_user() -> ArraySubquery:
    """What the `user` of a row is in which tenant, to be read with the row; `members` makes of it what `User` keeps."""
    pair = JSONObject(tenant="tenant_id", role="role")
    return ArraySubquery(Membership.objects.filter(user=OuterRef("user")).values(pair=pair))


def members(roles: Iterable[Mapping[str, Any]]) -> dict[int, Role]:
    """The role in each tenant, of what `roles_of_user` brought."""
    return {pair["tenant"]: Role(pair["role"]) for pair in roles}


def person_of_claims(claims: dict[str, Any]) -> User:
    """The person the provider speaks of, made at their first sign-in. Issuer and subject decide, nothing else."""
    about = {"name": person_name(claims), "email": verified_email(claims), "confirmed_at": timezone.now()}
    user, _made = User.objects.update_or_create(iss=claims["iss"], sub=claims["sub"], defaults=about)
    return user


def sync_roles(user: User, claims: dict[str, Any]) -> None:
    """Make memberships and platform roles what the provider's groups say; tenants are never made by a claim."""
    absent_means_none = settings.PORTAL_OIDC_GROUPS_ABSENT == "empty"
    groups = groups_of_claims(claims, absent_means_none=absent_means_none)
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(confirmed_at=timezone.now())
        if groups is not None:
            _set_roles(user, roles_of_groups(groups))


def _set_roles(user: User, roles: GroupRoles) -> None:
    locked = User.objects.select_for_update().get(pk=user.pk)
    wanted = {t.pk: roles.tenants[t.slug].value for t in Tenant.objects.filter(slug__in=list(roles.tenants))}
    known = dict(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
    platform = sorted(role.value for role in roles.platform)
    if wanted == known and platform == sorted(locked.platform_roles):
        return
    Membership.objects.filter(user=user).exclude(tenant_id__in=list(wanted)).delete()
    for tenant_id, role in wanted.items():
        if known.get(tenant_id) != role:
            Membership.objects.update_or_create(user=user, tenant_id=tenant_id, defaults={"role": role})
    User.objects.filter(pk=user.pk).update(platform_roles=platform)
    user.platform_roles, user.members = platform, None
    for tenant_id in sorted(wanted.keys() | known.keys()):
        before, after = known.get(tenant_id, ""), wanted.get(tenant_id, "")
        if before != after:
            _record_roles(user, tenant_id, before, after)
    if platform != sorted(locked.platform_roles):
        _record_roles(user, None, ", ".join(sorted(locked.platform_roles)), ", ".join(platform))
    revoked(user.pk)


def _record_roles(user: User, tenant_id: int | None, before: str, after: str) -> None:
    who = Actor.system("identity-provider")
    record(ROLES_CHANGED, who, user.audit_id, tenant_id=tenant_id, before=before or "–", after=after or "–")


@use_case(PREFERENCES_SET)
def set_preferences(actor: Actor, *, language: str, theme: str, timezone: str) -> None:
    """Keep how a person wants to read the portal; "" lets the browser decide. The caller has checked the values."""
    User.objects.filter(pk=actor.user_pk).update(language=language, theme=theme, timezone=timezone)
    record(PREFERENCES_SET, actor, actor.id, language=language, theme=theme, timezone=timezone)


def actor_of(user_pk: uuid.UUID | str) -> Actor | None:
    """Who this person is now; None when they may no longer come in."""
    user = User.objects.filter(pk=user_pk, is_active=True).first()
    return user.actor() if user else None


def tenants_of(actor: Actor) -> list[Tenant]:
    """The tenants an actor is a member of, by slug."""
    return list(Tenant.objects.filter(pk__in=list(actor.tenants)))


def people_with(permission: Permission, tenant_id: int | None) -> list[str]:
    """The ids of everybody who may do this in that tenant (None: on the platform as a whole), to tell them of it."""
    granted = GRANTS[permission]
    active = User.objects.filter(is_active=True)
    platform = [role.value for role in granted if role.is_platform]
    found = set(active.filter(platform_roles__overlap=platform).values_list("pk", flat=True)) if platform else set()
    if tenant_id is not None:
        members = Membership.objects.filter(tenant_id=tenant_id, role__in=[role.value for role in granted])
        found |= set(active.filter(pk__in=members.values("user_id")).values_list("pk", flat=True))
    return sorted(str(pk) for pk in found)


MOST_NAMESAKES = 100


def people_named(text: str) -> list[str]:
    """The audit ids of people whose name holds this text, whatever its case."""
    found = User.objects.filter(name__icontains=text).order_by("name", "pk")
    return [user.audit_id for user in found.only("pk")[:MOST_NAMESAKES]]


def audit_names(ids: Iterable[str]) -> dict[str, str]:
    """Names for audit ids such as `user:6f…` and `tenant:3`; ids of nobody known are left out."""
    ids = list(ids)
    people = {one: pk for one in ids if (pk := _uuid(one)) is not None}
    names: dict[object, str] = dict(User.objects.filter(pk__in=set(people.values())).values_list("pk", "name"))
    found = {one: names[pk] for one, pk in people.items() if pk in names}
    keys = (one.removeprefix("tenant:") for one in ids if one.startswith("tenant:"))
    if teams := [int(key) for key in keys if key.isascii() and key.isdigit() and len(key) < 19]:
        named = Tenant.objects.filter(pk__in=teams).values_list("pk", "name")
        found |= {f"tenant:{pk}": name for pk, name in named}
    return found


def _uuid(audit_id: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(audit_id.removeprefix("user:")) if audit_id.startswith("user:") else None
    except ValueError:
        return None
