from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "apps.audit"

    def ready(self) -> None:
        from apps.audit.services import reading, words

        reading.register_words("audit.exported", kind=words.file_kind, filter=words.search)
