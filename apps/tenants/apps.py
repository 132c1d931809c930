from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "apps.tenants"

    def ready(self) -> None:
        from apps.clusters import services as clusters
        from apps.tenants import services

        clusters.register_due("tenants.reconcile_placement", services.due_placements)
