from django.apps import AppConfig
from django.urls import reverse
from django.utils.translation import gettext_lazy as _


class QuotasConfig(AppConfig):
    name = "apps.quotas"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.notices import services as notices
        from apps.quotas import services
        from apps.quotas.services import words
        from apps.streams import services as streams

        streams.register_topic("quotarequest", services.may_follow_request)
        notices.register_waiting(services.waiting_for)
        audit.register_target(
            "quota-request",
            audit.TargetKind(_("the quota request"), page=lambda pk: reverse("quotas:request", args=[pk])),
        )
        audit.register_system("quota", _("Quota control"))
        for key in ("quota.asked", "quota.accepted", "quota.approved", "quota.offered"):
            audit.register_words(key, until=words.moment, since=words.moment)
