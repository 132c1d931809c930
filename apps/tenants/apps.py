from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TenantsConfig(AppConfig):
    name = "apps.tenants"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.clusters import services as clusters
        from apps.clusters.services import registry
        from apps.notices import services as notices
        from apps.quotas import services as quotas
        from apps.streams import services as streams
        from apps.tenants import checks, services  # noqa: F401  (checks register themselves)
        from apps.tenants.services import audited, occupying, seen

        clusters.register_due(services.TASK, services.due_placements)
        registry.register_owners(seen.owners)
        clusters.register_occupants("tenant", occupying.occupants)
        streams.register_topic("tenant", services.may_follow_tenant)
        streams.register_topic("tenantrequest", services.may_follow_request)
        quotas.register_limit_listener(services.follow_limit)
        services.register_blocker("secret", occupying.secrets_left)
        notices.register_waiting(services.waiting)
        audit.register_system("tenants", _("Tenant control"))
        audit.register_target(
            "tenant", audit.TargetKind(_("the tenant"), page=audited.tenant_page, relatives=audited.requests_of)
        )
        audit.register_target(
            "tenant-request",
            audit.TargetKind(_("the request"), page=audited.request_page, relatives=audited.tenant_of),
        )
