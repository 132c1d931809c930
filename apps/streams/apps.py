from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StreamsConfig(AppConfig):
    name = "apps.streams"

    def ready(self) -> None:
        from apps.accounts import services as accounts
        from apps.audit import services as audit
        from apps.streams.services.hints import revoked

        accounts.on_revoked.append(revoked)
        audit.register_system("streams", _("Log keeping"))
