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
        if self.read_only and not permission.endswith(".view"):
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
    Permission.CLUSTER_REGISTER: _("Only platform operators add, change and remove clusters."),
    Permission.LOG_READERS_VIEW: _("You may not see how logs are read. Ask a platform operator."),
    Permission.LOG_READERS_MANAGE: _("Only platform operators add, change and remove readers of logs."),
    Permission.TENANT_ASK: _("Only team admins and platform operators ask for a tenant."),
    Permission.TENANT_DECIDE: _("Only platform operators decide on a new tenant."),
    Permission.TENANT_PROVISION: _("Only platform operators provision tenants."),
    Permission.TENANT_REPAIR: _("Only the tenant's team admins and platform operators restore its objects."),
    Permission.TENANT_REMOVE: _("Only platform operators remove a tenant from a cluster."),
    Permission.QUOTA_VIEW: _("You may not see this tenant's quota. Ask its team admin."),
    Permission.QUOTA_ASK: _("Only data scientists and team admins ask for quota. Ask a team admin for that role."),
    Permission.QUOTA_DECIDE_TENANT: _("Only a team admin of this tenant decides this step."),
    Permission.QUOTA_DECIDE_PLATFORM: _("Only platform operators decide this step."),
    Permission.SECRET_VIEW: _("Only data scientists, team admins and auditors see which secrets there are."),
    Permission.SECRET_MANAGE: _("Only data scientists and team admins enter and remove secrets."),
    Permission.MODEL_VIEW: _("You may not see this tenant's models. Ask its team admin."),
    Permission.MODEL_REGISTER: _("Only data scientists and team admins register models. Ask a team admin."),
    Permission.MODEL_EDIT: _("Only data scientists and team admins change a model. Ask a team admin."),
    Permission.MODEL_REVIEW: _("Only a team admin approves a model's version."),
    Permission.DEPLOYMENT_VIEW: _("You may not see this tenant's deployments. Ask its team admin."),
    Permission.DEPLOYMENT_CREATE: _("Only data scientists and team admins deploy models. Ask a team admin."),
    Permission.DEPLOYMENT_USE: _("Only data scientists and team admins use deployments here. Ask a team admin."),
    Permission.DEPLOYMENT_CONTROL_OWN: _("Only data scientists and team admins control deployments."),
    Permission.DEPLOYMENT_CONTROL_ANY: _("This deployment belongs to somebody else. Ask its owner or a team admin."),
    Permission.AUDIT_VIEW: _("Only auditors and team admins read the audit log."),
    Permission.AUDIT_EXPORT: _("Only auditors and team admins export the audit log."),
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
    Permission.CLUSTER_REGISTER: _("Add, change and remove clusters"),
    Permission.LOG_READERS_VIEW: _("See how logs are read"),
    Permission.LOG_READERS_MANAGE: _("Add, change and remove readers of logs"),
    Permission.TENANT_ASK: _("Ask for a new tenant"),
    Permission.TENANT_DECIDE: _("Approve or reject a new tenant"),
    Permission.TENANT_PROVISION: _("Prepare a tenant's place in a cluster"),
    Permission.TENANT_REPAIR: _("Restore a tenant's objects in a cluster"),
    Permission.TENANT_REMOVE: _("Remove a tenant from a cluster"),
    Permission.QUOTA_VIEW: _("See a tenant's quota and its requests"),
    Permission.QUOTA_ASK: _("Ask for quota"),
    Permission.QUOTA_DECIDE_TENANT: _("Decide on quota requests for the team"),
    Permission.QUOTA_DECIDE_PLATFORM: _("Decide on quota requests for the platform"),
    Permission.SECRET_VIEW: _("See which secrets there are, never their values"),
    Permission.SECRET_MANAGE: _("Enter, replace and remove secrets"),
    Permission.MODEL_VIEW: _("See models"),
    Permission.MODEL_REGISTER: _("Register models"),
    Permission.MODEL_EDIT: _("Change a model's card, stage and visibility"),
    Permission.MODEL_REVIEW: _("Approve a model's version"),
    Permission.DEPLOYMENT_VIEW: _("See deployments"),
    Permission.DEPLOYMENT_CREATE: _("Deploy models"),
    Permission.DEPLOYMENT_USE: _("Chat with a deployment and make keys for it"),
    Permission.DEPLOYMENT_CONTROL_OWN: _("Scale, stop and remove one's own deployments"),
    Permission.DEPLOYMENT_CONTROL_ANY: _("Scale, stop and remove other people's deployments"),
    Permission.AUDIT_VIEW: _("Read the audit log"),
    Permission.AUDIT_EXPORT: _("Export the audit log"),
    Permission.PERMISSIONS_VIEW: _("See who may do what"),
    Permission.TOKEN_MANAGE_OWN: _("Make and revoke one's own API tokens"),
}
"""What each right allows, as a person would say it."""
