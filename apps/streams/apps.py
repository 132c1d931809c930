from django.apps import AppConfig


class StreamsConfig(AppConfig):
    name = "apps.streams"

    def ready(self) -> None:
        from apps.accounts import services as accounts
        from apps.streams.services.hints import revoked

        accounts.on_revoked.append(revoked)
