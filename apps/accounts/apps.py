from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"

    def ready(self) -> None:
        from apps.accounts import checks, services
        from apps.audit import services as audit

        checks.refuse_to_start()
        audit.register_directory(audit.Directory(names=services.person_names, tenant_id=services.tenant_id_of))
