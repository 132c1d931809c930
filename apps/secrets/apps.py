from django.apps import AppConfig
from django.urls import reverse
from django.utils.translation import gettext_lazy as _


class SecretsConfig(AppConfig):
    name = "apps.secrets"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.secrets.services import actions  # noqa: F401  (declares actions that the audit page must know)

        audit.register_system("secrets", _("Secrets"))
        audit.register_target(
            "secret", audit.TargetKind(_("the secret"), page=lambda _secret_id: reverse("secrets:list"))
        )
