"""A cluster in maintenance takes nothing new and says why; what was accepted before is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.adapters.kubernetes import objects
from apps.audit.models import Entry
from apps.catalog.models import ModelVersion
from apps.clusters import services
from apps.clusters.models import Cluster
from apps.clusters.services.connect import connect, vault
from apps.jobs import services as jobs
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.domain.problems import InvalidDocument
from apps.jobs.models import Job
from apps.jobs.reconcile.job import reconcile_job
from apps.jobs.services.messages import problem_text
from apps.quotas import services as quotas
from apps.serving import services as serving
from apps.tenants import services as tenants
from tests import factories
from tests.factories import DOCUMENT, World
from tests.pages import browser
from tests.serving import made

WHY = services.Maintenance("Firmware of the leaf switches.")


def close(world: World) -> None:
    services.begin_maintenance(world.actor(Role.OPERATOR), cluster=world.place.cluster, maintenance=WHY)
    world.place.cluster.refresh_from_db()


def test_nothing_new_is_submitted_and_the_reason_is_told(world: World) -> None:
    close(world)
    with pytest.raises(InvalidDocument) as refused:
        jobs.submit(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, document=DOCUMENT)
    (problem,) = refused.value.problems
    assert problem_text(problem) == "Train A is in maintenance and takes nothing new: Firmware of the leaf switches."
    services.end_maintenance(world.actor(Role.OPERATOR), cluster=world.place.cluster)
    assert jobs.submit(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, document=DOCUMENT).pk
    actions = Entry.objects.filter(action__startswith="cluster.maintenance").order_by("pk")
    assert [one.action for one in actions] == ["cluster.maintenance-begun", "cluster.maintenance-ended"]


def test_nothing_new_is_deployed(world: World) -> None:
    version: ModelVersion = made.version(world.scientist, world.place)
    close(world)
    with pytest.raises(serving.InvalidRequest) as refused:
        made.deployment(world.scientist, version)
    assert refused.value.problems[0].code == "maintenance"


def test_nothing_more_of_a_deployment_begins(world: World) -> None:
    deployed = made.deployment(world.scientist, made.version(world.scientist, world.place))
    close(world)
    with pytest.raises(serving.InvalidRequest) as refused:
        serving.scale(world.actor(Role.SCIENTIST), deployment=deployed, replicas=deployed.replicas + 1)
    assert refused.value.problems[0].code == "maintenance"
    serving.scale(world.actor(Role.SCIENTIST), deployment=deployed, replicas=0)


def test_no_job_is_resumed_and_its_place_stays_free(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.SUSPENDED, wanted=Wanted.SUSPEND)
    quotas.release(job.subject)
    close(world)
    with pytest.raises(services.Closed, match="leaf switches"):
        jobs.resume(world.actor(Role.SCIENTIST), job=job)
    assert Job.objects.for_system().get(pk=job.pk).wanted == Wanted.SUSPEND
    assert not quotas.use(world.nlp.pk, world.place.pool).held
    page = browser(world.scientist).post(reverse("jobs:resume", args=[job.pk]), follow=True).content.decode()
    assert "is in maintenance and takes nothing new: Firmware of the leaf switches." in page
    services.end_maintenance(world.actor(Role.OPERATOR), cluster=world.place.cluster)
    jobs.resume(world.actor(Role.SCIENTIST), job=job)


def test_no_tenant_gets_a_place_there_but_those_there_keep_theirs(world: World) -> None:
    close(world)
    operator, cluster = world.actor(Role.OPERATOR), world.place.cluster
    with pytest.raises(services.Closed, match="leaf switches"):
        tenants.ask_tenant(operator, tenants.Asked("robots", "Robots", cluster.pk, 4, "grasping"))
    tenants.ask_placement(operator, tenant_id=world.nlp.pk, slug="nlp", cluster_id=cluster.pk, gpus=4)
    page = browser(world.people[Role.OPERATOR]).get("/tenant-requests/new").content.decode()
    assert "In maintenance: takes nothing new." in page
    assert "leaf switches" in page


def test_a_maintenance_says_why_and_ends_in_the_future(world: World) -> None:
    for wrong in (services.Maintenance(" "), services.Maintenance("x", timezone.now()), services.Maintenance("a\nb")):
        with pytest.raises(ValidationError):
            services.begin_maintenance(world.actor(Role.OPERATOR), cluster=world.place.cluster, maintenance=wrong)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Shanghai"])
def test_a_year_with_a_digit_too_many_is_refused_and_every_page_still_reads_the_cluster(
    world: World, zone: str
) -> None:
    Cluster.objects.filter(pk=world.place.cluster_id).update(state=Cluster.State.READY)
    client = browser(world.people[Role.OPERATOR])
    client.cookies["timezone"] = zone
    answer = client.post("/clusters/train-a/maintenance", {"reason": "firmware", "until": "9999-12-31T23:59"})
    assert answer.status_code == 422
    assert "within a year" in answer.content.decode()
    assert 'value="firmware"' in answer.content.decode()
    backwards = client.post("/clusters/train-a/maintenance", {"reason": "\u202efirmware"}).content.decode()
    assert "characters that cannot be shown" in backwards
    for page in ("/clusters/", "/clusters/train-a/", "/fleet/", "/api/v1/clusters/train-a"):
        assert client.get(page).status_code == 200


def test_the_wizard_shows_the_reason(world: World) -> None:
    close(world)
    draft = factories.draft(world.scientist, world.nlp)
    page = browser(world.scientist).get(reverse("jobs:draft-review", args=[draft.pk])).content.decode()
    assert "Train A is in maintenance and takes nothing new." in page
    assert "leaf switches" in page


@pytest.fixture
def outside_calls() -> Iterator[None]:
    vault.cache_clear()
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


def test_what_was_accepted_before_goes_in_when_it_ends(outside_calls: None, connected: World) -> None:
    job = factories.job(connected.scientist, connected.place)
    close(connected)

    def look() -> Job:
        reconcile_job(Job.objects.for_system().select_related("placement__cluster", "placement__tenant").get(pk=job.pk))
        return Job.objects.for_system().get(pk=job.pk)

    kept = look()
    assert (kept.phase, kept.reason, kept.object_uid) == ("submitted", "waiting.maintenance", "")
    services.end_maintenance(connected.actor(Role.OPERATOR), cluster=connected.place.cluster)
    assert look().object_uid


def test_what_was_resumed_before_goes_on_when_it_ends(outside_calls: None, connected: World) -> None:
    job = factories.job(connected.scientist, connected.place)
    rows = Job.objects.for_system().select_related("placement__cluster", "placement__tenant").filter(pk=job.pk)
    reconcile_job(rows.get())
    api, place = connect(connected.place.cluster), connected.place.namespace
    path = objects.path(objects.VOLCANO_JOB, place, manifests.object_name(job.pk))
    api.merge_patch(f"{path}/status", {"status": {"state": {"phase": "Aborted"}}})
    close(connected)
    commands = objects.path(objects.VOLCANO_COMMAND, place)
    reconcile_job(rows.get())
    kept = rows.get()
    assert (kept.phase, kept.reason, api.list(commands)) == ("suspended", "waiting.maintenance", [])
    services.end_maintenance(connected.actor(Role.OPERATOR), cluster=connected.place.cluster)
    reconcile_job(rows.get())
    assert [one["action"] for one in api.list(commands)] == ["ResumeJob"]
