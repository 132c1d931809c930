from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "apps.jobs"

    def ready(self) -> None:
        from apps.jobs.services import background, holding, registries, waiting
        from apps.notices import services as notices
        from apps.quotas import services as quotas
        from apps.secrets import services as secrets
        from apps.streams import services as streams
        from apps.tenants import services as tenants

        registries.fill_clusters()
        registries.fill_words()
        secrets.register_user(secrets.UserKind("job", background.secret_uses, background.live_subjects))
        quotas.register_live(holding.KIND, holding.live_subjects, holding.on_nodes)
        streams.register_topic("job", background.may_follow_job, background.tenant_of)
        streams.register_topic("devices", background.may_follow_job)
        streams.register_topic("draft", background.may_follow_draft)
        tenants.register_blocker("job", background.blockers)
        tenants.register_blocker("board", background.board_blockers)
        notices.register_waiting(waiting.waiting_for)
