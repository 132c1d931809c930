from django.apps import AppConfig
from django.urls import reverse
from django.utils.translation import gettext_lazy as _


class CatalogConfig(AppConfig):
    name = "apps.catalog"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.catalog.domain import manifests
        from apps.catalog.services import background, staging, words
        from apps.clusters import services as clusters
        from apps.notices import services as notices
        from apps.streams import services as streams
        from apps.tenants import services as tenants

        clusters.register_workload(
            clusters.WorkloadKind(
                label=manifests.TRANSFER_LABEL,
                task="catalog.reconcile_transfer",
                topic=lambda transfer_id: f"transfer.{transfer_id}",
                known=background.known_transfers,
                waiting=background.waiting_transfers,
                objects=("v1", "Pod"),
            )
        )
        clusters.register_due("catalog.reconcile_transfer", background.due_transfers)
        clusters.register_due("catalog.remove_blob", background.due_blobs)
        streams.register_topic("registeredmodel", background.may_follow_model)
        streams.register_topic("models", background.may_follow_models)
        audit.register_system("catalog", _("Model control"))
        audit.register_words("model.stage", old=words.stage_name, new=words.stage_name)
        audit.register_words("model.edited", fields=words.fields_text)
        audit.register_words("model.files-failed", reason=words.reason_name)
        audit.register_target(
            "model",
            audit.TargetKind(
                _("the model"),
                page=lambda model_id: reverse("catalog:model", args=[model_id]),
                relatives=background.relatives_of,
            ),
        )
        notices.register_words(staging.DECIDED, new=words.stage_name)
        tenants.register_blocker("transfer", background.blockers)
        notices.register_waiting(background.waiting_for)
