from django.db import migrations
from django.db.models import F

HOLD_NOTHING = ("succeeded", "failed", "stopped", "suspended")


def hold_for_live_jobs(apps, schema_editor):
    """Jobs that were submitted before there were quotas hold what they run on, over the limit if need be."""
    allowances, holds = apps.get_model("quotas", "Allowance").objects, apps.get_model("quotas", "Hold").objects
    live = apps.get_model("jobs", "Job").objects.exclude(phase__in=HOLD_NOTHING).select_related("placement__cluster")
    for job in live.iterator():
        pool = {"cluster": job.placement.cluster.slug, "resource": job.placement.accelerator}
        allowance, _made = allowances.get_or_create(tenant_id=job.tenant_id, **pool)
        _hold, new = holds.get_or_create(allowance=allowance, subject=f"job:{job.pk}", defaults={"amount": job.gpus})
        if new:
            allowances.filter(pk=allowance.pk).update(held=F("held") + job.gpus)


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0001_initial'),
        ('quotas', '0001_initial'),
        ('tenants', '0003_limit_is_known_to_quotas'),
    ]

    operations = [migrations.RunPython(hold_for_live_jobs, migrations.RunPython.noop)]
