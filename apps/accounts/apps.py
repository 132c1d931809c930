from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    name = "apps.accounts"

    def ready(self) -> None:
        from apps.accounts import checks, services
        from apps.accounts.services import words
        from apps.audit import services as audit

        checks.refuse_to_start()
        audit.register_directory(
            audit.Directory(services.audit_names, tenant_id=services.tenant_id_of, people=services.people_named)
        )
        audit.register_words("accounts.roles-changed", before=words.roles, after=words.roles)
        audit.register_words("accounts.sign-in-refused", reason=words.refusal)
        audit.register_system("identity-provider", _("Identity provider"))
        audit.register_system("portal", _("Portal"))
