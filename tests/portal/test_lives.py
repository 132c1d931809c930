"""The life of a model through the apps that make it: the job, the version registered from it, its deployment."""

from __future__ import annotations

from dataclasses import replace

from django.urls import reverse
from django.utils import translation

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.audit.domain import Search
from apps.catalog import services as catalog
from apps.catalog.models import ModelVersion
from apps.jobs import moves
from apps.jobs import services as jobs
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from tests.catalog import made
from tests.factories import DOCUMENT, World
from tests.pages import browser
from tests.serving.made import FACTS, deployment


def trained(world: World) -> Job:
    job = jobs.submit(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, document=DOCUMENT)
    for phase in (Phase.WAITING, Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED):
        moves.move(job, phase, moves.Facts(1))
    return job


def test_the_life_of_a_model_goes_from_the_job_to_the_endpoint_whichever_end_one_holds(world: World) -> None:
    me, job = world.scientist, trained(world)
    lineage = {**made.LINEAGE, "job": {"id": job.pk, "name": job.name}}
    version = catalog.register(me.actor(), replace(made.registration(world.place), lineage=lineage))
    ModelVersion.objects.filter(pk=version.pk).update(files=catalog.Files.READY, facts=FACTS)
    version.refresh_from_db()
    served = deployment(me, version)
    family = {job.audit_id, f"model:{version.model_id}", served.subject}
    for one in family:
        assert set(audit.family(one)) == family
    client = browser(world.people[Role.AUDITOR])
    page = client.get(reverse("audit:list"), {"life": served.subject, "sort": "old"})
    told = [row.entry.action for row in page.context["rows"]]
    assert told[0] == "job.submitted"
    assert told[1:5] == ["job.moved"] * 4
    assert told.index("model.registered") < told.index("deployment.created")
    assert [target for target, _name, _page in page.context["relatives"]][0::2] == [job.audit_id, served.subject]
    assert all(address for _target, _name, address in page.context["relatives"])
    entries = audit.found(world.actor(Role.AUDITOR), Search(life=job.audit_id))
    names = audit.names_for(entries, audit.scope(Actor.system("test")))
    for language in ("en", "zh-hans"):
        with translation.override(language):
            sentences = [audit.plain_sentence(entry, names) for entry in entries.order_by("at", "pk")]
        assert len(sentences) == len(told)
        assert not [said for said in sentences if "…" in said or "{" in said]
