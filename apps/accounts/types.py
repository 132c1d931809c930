"""The actor: who is acting, for which tenants, with which rights. Any app may import this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.domain import GRANTS, Permission, Role
from apps.audit.services import Denied

__all__ = ["Actor", "Denied", "Permission", "Role"]

_NONE: Mapping[int, Role] = MappingProxyType({})


@dataclass(frozen=True)
class Actor:
    """A person (by page or by token) or a part of the system. Built once a request, never stored.

    `tenants` maps tenant id to the role held there. A token with scope "read" takes every right to change away, and
    no token may make another one.
    """

    id: str
    name: str
    tenants: Mapping[int, Role] = field(default_factory=lambda: _NONE)
    platform: frozenset[Role] = frozenset()
    read_only: bool = False
    user_pk: str = ""
    token_id: int | None = None

    @classmethod
    def system(cls, name: str) -> Actor:
        """A part of the portal itself, such as `system:watch`; it holds every right."""
        return cls(id=f"system:{name}", name=name)

    @classmethod
    def anonymous(cls) -> Actor:
        """Somebody who has not signed in; holds no right."""
        return cls(id="anonymous", name="")

    @property
    def is_anonymous(self) -> bool:
        return self.id == "anonymous"

    @property
    def is_system(self) -> bool:
        return self.id.startswith("system:")

    def may(self, permission: Permission, tenant_id: int | None = None) -> bool:
        """Whether this actor holds the right in this tenant (or on the platform, when no tenant is named)."""
        if self.is_system:
            return True
        if self.read_only and not permission.value.endswith(".view"):
            return False
        if self.token_id is not None and permission is Permission.TOKEN_MANAGE_OWN:
            return False
        granted = GRANTS[permission]
        if granted & self.platform:
            return True
        if tenant_id is None:
            return any(role in granted for role in self.tenants.values())
        return self.tenants.get(tenant_id) in granted

    def require(self, permission: Permission, tenant_id: int | None = None, *, target: str = "") -> None:
        """Raise `Denied` unless `may`."""
        if not self.may(permission, tenant_id):
            raise Denied(permission, MISSING[permission], tenant_id=tenant_id, target=target)

    def tenants_where(self, permission: Permission) -> frozenset[int] | None:
        """The tenants in which the right is held; None means every tenant."""
        granted = GRANTS[permission]
        if self.is_system or granted & self.platform:
            return None
        return frozenset(pk for pk, role in self.tenants.items() if role in granted)


MISSING: dict[Permission, Promise] = {
    Permission.JOB_VIEW: _("You may not see jobs here. Ask a team admin to add you to the tenant."),
    Permission.JOB_SUBMIT: _("Only data scientists and team admins submit jobs. Ask a team admin for that role."),
    Permission.JOB_CONTROL_OWN: _("Only data scientists and team admins control jobs. Ask a team admin."),
    Permission.JOB_CONTROL_ANY: _("This job belongs to somebody else. Ask its owner or a team admin."),
    Permission.CLUSTER_VIEW: _("You may not see clusters. Ask a platform operator."),
    Permission.TENANT_VIEW: _("You may not see this tenant. Ask its team admin."),
    Permission.CLUSTER_REGISTER: _("Only platform operators register clusters."),
    Permission.TENANT_PROVISION: _("Only platform operators provision tenants."),
    Permission.AUDIT_VIEW: _("Only auditors and team admins read the audit log."),
    Permission.PERMISSIONS_VIEW: _("Sign in to see who may do what."),
    Permission.TOKEN_MANAGE_OWN: _("An API token cannot manage tokens. Sign in with a browser."),
}


ROLE_NAMES: dict[Role, Promise] = {
    Role.VIEWER: _("Viewer"),
    Role.SCIENTIST: _("Data scientist"),
    Role.TEAM_ADMIN: _("Team admin"),
    Role.AUDITOR: _("Auditor"),
    Role.OPERATOR: _("Platform operator"),
}

PERMISSION_NAMES: dict[Permission, Promise] = {
    Permission.JOB_VIEW: _("See jobs, their logs and curves"),
    Permission.JOB_SUBMIT: _("Submit jobs"),
    Permission.JOB_CONTROL_OWN: _("Stop and clone one's own jobs"),
    Permission.JOB_CONTROL_ANY: _("Stop other people's jobs"),
    Permission.CLUSTER_VIEW: _("See clusters and what is free in them"),
    Permission.TENANT_VIEW: _("See a tenant and its members"),
    Permission.CLUSTER_REGISTER: _("Register a cluster"),
    Permission.TENANT_PROVISION: _("Prepare a tenant's place in a cluster"),
    Permission.AUDIT_VIEW: _("Read the audit log"),
    Permission.PERMISSIONS_VIEW: _("See who may do what"),
    Permission.TOKEN_MANAGE_OWN: _("Make and revoke one's own API tokens"),
}
"""What each right allows, as a person would say it."""
