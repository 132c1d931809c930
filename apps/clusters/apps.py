from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "apps.clusters"

    def ready(self) -> None:
        from apps.clusters.services import may_follow_cluster
        from apps.streams import services as streams

        streams.register_topic("cluster", may_follow_cluster)
