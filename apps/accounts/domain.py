"""Who may do what: the permission table (role × use-case), as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The first three are held in a tenant, the others on the platform."""

    VIEWER = "viewer"
    SCIENTIST = "data-scientist"
    TEAM_ADMIN = "team-admin"
    AUDITOR = "auditor"
    OPERATOR = "platform-operator"

    @property
    def is_platform(self) -> bool:
        return self in (Role.AUDITOR, Role.OPERATOR)


class Permission(StrEnum):
    """One name per use-case that can be refused."""

    JOB_VIEW = "job.view"
    JOB_SUBMIT = "job.submit"
    JOB_CONTROL_OWN = "job.control-own"
    JOB_CONTROL_ANY = "job.control-any"
    CLUSTER_VIEW = "cluster.view"
    CLUSTER_REGISTER = "cluster.register"
    LOG_READERS_VIEW = "log-readers.view"
    LOG_READERS_MANAGE = "log-readers.manage"
    TENANT_VIEW = "tenant.view"
    TENANT_ASK = "tenant.ask"
    TENANT_DECIDE = "tenant.decide"
    TENANT_PROVISION = "tenant.provision"
    TENANT_REPAIR = "tenant.repair"
    TENANT_REMOVE = "tenant.remove"
    QUOTA_VIEW = "quota.view"
    QUOTA_ASK = "quota.ask"
    QUOTA_DECIDE_TENANT = "quota.decide-tenant"
    QUOTA_DECIDE_PLATFORM = "quota.decide-platform"
    SECRET_VIEW = "secret.view"  # noqa: S105 (the name of a right)
    SECRET_MANAGE = "secret.manage"  # noqa: S105
    MODEL_VIEW = "model.view"
    MODEL_REGISTER = "model.register"
    MODEL_EDIT = "model.edit"
    MODEL_REVIEW = "model.review"
    DEPLOYMENT_VIEW = "deployment.view"
    DEPLOYMENT_CREATE = "deployment.create"
    DEPLOYMENT_USE = "deployment.use"
    DEPLOYMENT_CONTROL_OWN = "deployment.control-own"
    DEPLOYMENT_CONTROL_ANY = "deployment.control-any"
    AUDIT_VIEW = "audit.view"
    AUDIT_EXPORT = "audit.export"
    PERMISSIONS_VIEW = "permissions.view"
    TOKEN_MANAGE_OWN = "token.manage-own"  # noqa: S105 (the name of a right)


_V, _S, _T, _A, _O = Role.VIEWER, Role.SCIENTIST, Role.TEAM_ADMIN, Role.AUDITOR, Role.OPERATOR
_EVERYONE = frozenset(Role)

GRANTS: dict[Permission, frozenset[Role]] = {
    Permission.JOB_VIEW: _EVERYONE,
    Permission.JOB_SUBMIT: frozenset({_S, _T}),
    Permission.JOB_CONTROL_OWN: frozenset({_S, _T}),
    Permission.JOB_CONTROL_ANY: frozenset({_T, _O}),
    Permission.CLUSTER_VIEW: _EVERYONE,
    Permission.CLUSTER_REGISTER: frozenset({_O}),
    Permission.LOG_READERS_VIEW: _EVERYONE,
    Permission.LOG_READERS_MANAGE: frozenset({_O}),
    Permission.TENANT_VIEW: _EVERYONE,
    Permission.TENANT_ASK: frozenset({_T, _O}),
    Permission.TENANT_DECIDE: frozenset({_O}),
    Permission.TENANT_PROVISION: frozenset({_O}),
    Permission.TENANT_REPAIR: frozenset({_T, _O}),
    Permission.TENANT_REMOVE: frozenset({_O}),
    Permission.QUOTA_VIEW: _EVERYONE,
    Permission.QUOTA_ASK: frozenset({_S, _T}),
    Permission.QUOTA_DECIDE_TENANT: frozenset({_T}),
    Permission.QUOTA_DECIDE_PLATFORM: frozenset({_O}),
    Permission.SECRET_VIEW: frozenset({_S, _T, _A}),
    Permission.SECRET_MANAGE: frozenset({_S, _T}),
    Permission.MODEL_VIEW: _EVERYONE,
    Permission.MODEL_REGISTER: frozenset({_S, _T}),
    Permission.MODEL_EDIT: frozenset({_S, _T}),
    Permission.MODEL_REVIEW: frozenset({_T}),
    Permission.DEPLOYMENT_VIEW: _EVERYONE,
    Permission.DEPLOYMENT_CREATE: frozenset({_S, _T}),
    Permission.DEPLOYMENT_USE: frozenset({_S, _T}),
    Permission.DEPLOYMENT_CONTROL_OWN: frozenset({_S, _T}),
    Permission.DEPLOYMENT_CONTROL_ANY: frozenset({_T, _O}),
    Permission.AUDIT_VIEW: frozenset({_T, _A}),
    Permission.AUDIT_EXPORT: frozenset({_T, _A}),
    Permission.PERMISSIONS_VIEW: _EVERYONE,
    Permission.TOKEN_MANAGE_OWN: _EVERYONE,
}


@dataclass(frozen=True)
class GroupRoles:
    """What a provider's groups say: roles per tenant slug, and roles on the platform."""

    tenants: dict[str, Role]
    platform: frozenset[Role]


_STRENGTH = [Role.VIEWER, Role.SCIENTIST, Role.TEAM_ADMIN]
_TENANT_GROUPS = {"viewers": Role.VIEWER, "data-scientists": Role.SCIENTIST, "team-admins": Role.TEAM_ADMIN}
_PLATFORM_GROUPS = {"/platform/auditors": Role.AUDITOR, "/platform/operators": Role.OPERATOR}


def tenant_groups(slug: str) -> dict[Role, str]:
    """The provider's group of each role in a tenant, by its full path."""
    return {role: f"/{slug}/{group}" for group, role in _TENANT_GROUPS.items()}


def roles_of_groups(groups: object) -> GroupRoles:
    """Read a `groups` claim of any shape. Full paths only, compared whole and case-sensitively:
    `/<tenant>/<viewers|data-scientists|team-admins>` and `/platform/<auditors|operators>`; the strongest role counts.
    """
    tenants: dict[str, Role] = {}
    platform: set[Role] = set()
    for group in groups if isinstance(groups, list) else []:
        if not isinstance(group, str) or len(group) > 255 or not group.isprintable():
            continue
        if group in _PLATFORM_GROUPS:
            platform.add(_PLATFORM_GROUPS[group])
            continue
        parts = group.split("/")
        if len(parts) == 3 and parts[0] == "" and parts[1] not in ("", "platform") and parts[2] in _TENANT_GROUPS:
            role = _TENANT_GROUPS[parts[2]]
            known = tenants.get(parts[1], role)
            tenants[parts[1]] = max(role, known, key=_STRENGTH.index)
    return GroupRoles(tenants, frozenset(platform))


def groups_of_claims(claims: Mapping[str, object], *, absent_means_none: bool) -> list[object] | None:
    """The groups a provider's claims name; None when they say nothing about groups, so that what is known is kept.

    Keycloak leaves the claim out for a person without groups, so absent means none unless the operator says otherwise.
    Providers with too many groups for a token send `_claim_names` instead: then nothing is known.
    """
    sources = claims.get("_claim_names")
    if isinstance(sources, dict) and "groups" in sources:
        return None
    if "groups" not in claims:
        return [] if absent_means_none else None
    groups = claims["groups"]
    return groups if isinstance(groups, list) else []


def person_name(claims: Mapping[str, object]) -> str:
    """A name to show, at most 200 characters on one line; the subject where the provider tells none."""
    for key in ("name", "preferred_username", "email", "sub"):
        value = claims.get(key)
        if isinstance(value, str):
            name = " ".join("".join(c if c.isprintable() else " " for c in value).split())[:200]
            if name:
                return name
    return "?"


def verified_email(claims: Mapping[str, object]) -> str:
    """The address the provider vouches for, else none. It is for notices; nobody is ever recognised by it."""
    email = claims.get("email")
    fits = isinstance(email, str) and len(email) <= 254 and "@" in email and email.isprintable() and " " not in email
    return str(email) if fits and claims.get("email_verified") is True else ""
