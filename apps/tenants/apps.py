from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "apps.tenants"

    def ready(self) -> None:
        from apps.clusters import services as clusters
        from apps.streams import services as streams
        from apps.tenants import services

        clusters.register_due("tenants.reconcile_placement", services.due_placements)
        streams.register_topic("tenant", services.may_follow_tenant)
