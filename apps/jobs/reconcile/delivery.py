"""The secrets a job was asked to be given: lent, brought to its ranks, taken back at its end."""

from __future__ import annotations

from django.db import transaction

from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.calls import KubeApi
from apps.jobs import moves
from apps.jobs.domain import manifests
from apps.jobs.models import Job
from apps.jobs.services import reading
from apps.secrets import services as secrets
from apps.secrets.services import store


def bring(api: KubeApi, job: Job) -> None:
    """Put each secret into the job's namespace under the job's name. Repeatable; a repeat brings the newest version.

    Raises store.Gone, Unavailable, Refused. There is no owner to go with: the Job comes after its Secrets.
    """
    place, spec = reading.place(job.placement), job.spec
    lent = store.lend(moves.SYSTEM, job.audit_id, job.tenant_id, spec.secrets)
    for name, stored in manifests.secret_names(job.pk, spec).items():
        manifest = manifests.secret_manifest(stored, job.pk, place, lent.values[name])
        api.apply(objects.object_path(manifest), manifest)


def take_back(api: KubeApi, job: Job) -> None:
    """After the end, whatever it was: let the token be revoked, and delete what was brought. Repeatable."""
    with transaction.atomic():
        secrets.end(job.audit_id)
    for stored in manifests.secret_names(job.pk, job.spec).values():
        api.delete(objects.path(objects.SECRET, job.placement.namespace, stored))
