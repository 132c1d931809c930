from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClustersConfig(AppConfig):
    name = "apps.clusters"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.clusters import services
        from apps.quotas import services as quotas
        from apps.secrets import services as secrets
        from apps.streams import services as streams

        streams.register_topic("cluster", services.may_follow_cluster)
        services.register_due(quotas.TURN, quotas.due_requests)
        services.register_due("secrets.destroy", secrets.due_secrets)
        services.register_due("secrets.tend", secrets.due_loans)
        quotas.register_figures(services.pool_figures)
        audit.register_system("register_cluster", _("Command line"))
        audit.register_target("accelerator", audit.TargetKind(_("the accelerator")))
