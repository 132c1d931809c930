from django.apps import AppConfig


class NoticesConfig(AppConfig):
    name = "apps.notices"

    def ready(self) -> None:
        from apps.streams import services as streams

        streams.register_topic("inbox", lambda actor, user_pk: actor.user_pk == user_pk != "")
