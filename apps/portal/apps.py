from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PortalConfig(AppConfig):
    name = "apps.portal"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.notices import services as notices
        from apps.portal.services import lives, waiting

        audit.register_system("demo", _("Demo set-up"))
        notices.register_waiting(waiting.waiting_for)
        audit.register_relatives("job", lives.models_of_job)
