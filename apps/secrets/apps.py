from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SecretsConfig(AppConfig):
    name = "apps.secrets"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.secrets.services import actions  # noqa: F401  (declares actions that the audit page must know)

        audit.register_system("secrets", _("Secrets"))
