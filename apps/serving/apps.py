from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ServingConfig(AppConfig):
    name = "apps.serving"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.catalog import services as catalog
        from apps.clusters import services as clusters
        from apps.notices import services as notices
        from apps.quotas import services as quotas
        from apps.serving import moves  # noqa: F401  (declares an action that the audit page must know)
        from apps.serving.domain import manifests
        from apps.serving.reconcile import routes
        from apps.serving.services import background, messages, reading, waiting
        from apps.streams import services as streams
        from apps.tenants import services as tenants

        clusters.register_workload(
            clusters.WorkloadKind(
                label=manifests.LABEL,
                task="serving.reconcile_deployment",
                topic=lambda deployment_id: f"deployment.{deployment_id}",
                known=background.known_deployments,
                waiting=background.waiting_deployments,
                objects=("apps/v1", "Deployment"),
                links=reading.links,
            )
        )
        clusters.register_published(clusters.Published("", routes.routes))
        clusters.register_due("serving.reconcile_deployment", background.due_deployments)
        streams.register_topic("deployment", background.may_follow, background.tenant_of)
        quotas.register_live("deployment", background.live_subjects, background.subjects_on_nodes)
        catalog.register_use("deployment", background.uses_of)
        tenants.register_blocker("deployment", background.blockers)
        audit.register_target(
            "deployment", audit.TargetKind(_("the deployment"), background.page_of, background.relatives_of)
        )
        audit.register_relatives("model", background.deployments_of_model)
        audit.register_words("deployment.moved", old=messages.phase_name, new=messages.phase_name)
        notices.register_waiting(waiting.waiting_for)
        audit.register_system("serving", _("Deployment control"))
