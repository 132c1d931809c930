from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class QuotasConfig(AppConfig):
    name = "apps.quotas"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.quotas import services
        from apps.streams import services as streams

        streams.register_topic("quotarequest", services.may_follow_request)
        audit.register_system("quota", _("Quota control"))
