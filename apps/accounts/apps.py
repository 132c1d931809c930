from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"

    def ready(self) -> None:
        from apps.accounts import checks, services  # noqa: F401  (services declare the audit actions)

        checks.refuse_to_start()
