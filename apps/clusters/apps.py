from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClustersConfig(AppConfig):
    name = "apps.clusters"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.clusters import services
        from apps.clusters.services import audited, sources
        from apps.clusters.services.actions import TOLD_REFUSED
        from apps.notices import services as notices
        from apps.quotas import services as quotas
        from apps.secrets import services as secrets
        from apps.streams import services as streams

        streams.register_topic("cluster", services.may_follow_cluster)
        services.register_due(quotas.TURN, quotas.due_requests)
        services.register_due("secrets.destroy", secrets.due_secrets)
        services.register_due("secrets.tend", secrets.due_loans)
        services.register_due("streams.remove_segment", streams.due_segments)
        services.register_due("streams.merge_segments", streams.due_merges)
        quotas.register_figures(services.pool_figures)
        services.register_due(services.CHECK, services.due_entries)
        services.register_due(sources.CHECK, sources.due_sources)
        services.register_due(services.TEND, services.due_clusters)
        audit.register_system("register_cluster", _("Command line"))
        audit.register_target("accelerator", audit.TargetKind(_("the accelerator")))
        audit.register_system("clusters", _("Cluster control"))
        audit.register_target("cluster", audit.TargetKind(_("the cluster"), page=audited.cluster_page))
        for action in ("cluster.credential-refused", "cluster.profiled"):
            audit.register_words(action, failed=audited.checks_text, fields=audited.fields_text)
        notices.register_words(TOLD_REFUSED, failed=audited.checks_text)
        notices.register_waiting(audited.waiting)
