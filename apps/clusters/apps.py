from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClustersConfig(AppConfig):
    name = "apps.clusters"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.clusters.services import may_follow_cluster
        from apps.streams import services as streams

        streams.register_topic("cluster", may_follow_cluster)
        audit.register_system("register_cluster", _("Command line"))
