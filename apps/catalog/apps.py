from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CatalogConfig(AppConfig):
    name = "apps.catalog"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.catalog.domain import manifests
        from apps.catalog.services import background
        from apps.clusters import services as clusters
        from apps.streams import services as streams

        clusters.register_workload(
            clusters.WorkloadKind(
                label=manifests.TRANSFER_LABEL,
                task="catalog.reconcile_transfer",
                topic=lambda transfer_id: f"transfer.{transfer_id}",
                parse=background.Line,
                known=background.known_transfers,
                objects=("v1", "Pod"),
            )
        )
        clusters.register_due("catalog.reconcile_transfer", background.due_transfers)
        clusters.register_due("catalog.remove_blob", background.due_blobs)
        streams.register_topic("registeredmodel", background.may_follow_model)
        streams.register_topic("models", background.may_follow_models)
        audit.register_system("catalog", _("Model control"))
