from django.apps import AppConfig
from django.urls import reverse
from django.utils.translation import gettext_lazy as _


class JobsConfig(AppConfig):
    name = "apps.jobs"

    def ready(self) -> None:
        from apps.audit import services as audit
        from apps.clusters import services as clusters
        from apps.jobs import moves
        from apps.jobs.domain import manifests
        from apps.jobs.domain.phases import Phase
        from apps.jobs.services import background, holding, loss_words, losswatch, messages, readers, reading, waiting
        from apps.notices import services as notices
        from apps.quotas import services as quotas
        from apps.secrets import services as secrets
        from apps.streams import services as streams
        from apps.tenants import services as tenants

        clusters.register_workload(
            clusters.WorkloadKind(
                label=manifests.JOB_LABEL,
                task="jobs.reconcile_job",
                topic=lambda job_id: f"job.{job_id}",
                reader=readers.log_reader,
                figures_task=losswatch.TASK,
                known=background.known_jobs,
                unsettled=background.unsettled_jobs,
                waiting=background.waiting_jobs,
                ended=background.note_pod_end,
                seen=background.note_pods,
                links=reading.links,
                exposed=background.exposed_metrics,
            )
        )
        clusters.register_due("jobs.reconcile_job", background.due_jobs)
        secrets.register_user(secrets.UserKind("job", background.secret_uses, background.live_subjects))
        quotas.register_live(holding.KIND, holding.live_subjects, holding.on_nodes)
        streams.register_topic("job", background.may_follow_job, background.tenant_of)
        streams.register_topic("devices", background.may_follow_job)
        streams.register_topic("draft", background.may_follow_draft)
        tenants.register_blocker("job", background.blockers)
        audit.register_words("job.moved", old=messages.phase_name, new=messages.phase_name)
        audit.register_words("draft.begun", template=messages.template_name)
        audit.register_words("job.loss-tripped", why=loss_words.finding_text)
        audit.register_words("job.loss-set", watch=loss_words.preset_name)
        audit.register_target("log-reader", readers.TARGET)
        audit.register_system("reconcile", _("Job control"))
        audit.register_system("losswatch", _("Loss watch"))
        audit.register_target(
            "job", audit.TargetKind(_("the job"), page=lambda job_id: reverse("jobs:detail", args=[job_id]))
        )
        notices.register_words(moves.TOLD[Phase.FAILED], why=lambda why: messages.reason_text(*why))
        notices.register_words(losswatch.TOLD_TRIP, why=loss_words.finding_text)
        notices.register_words(losswatch.TOLD_ALERT, why=loss_words.finding_text)
        notices.register_waiting(waiting.waiting_for)
