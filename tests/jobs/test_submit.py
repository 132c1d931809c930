"""Submitting and controlling jobs: once, by whom, and what is kept."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.accounts.types import Denied
from apps.audit.models import Entry
from apps.clusters.models import Cluster
from apps.jobs import services
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Draft, IdempotencyKey, Job
from apps.jobs.services import overview
from apps.tenants import services as tenants
from apps.tenants.models import Placement
from tests import factories
from tests.factories import DOCUMENT, World


def submit(world: World, role: Role = Role.SCIENTIST, **changes: Any) -> Job:
    key = changes.pop("key", "")
    return services.submit(world.actor(role), tenant_id=world.nlp.pk, document={**DOCUMENT, **changes}, key=key)


def test_a_submitted_job_has_its_row_its_history_and_its_record(world: World) -> None:
    job = submit(world)
    assert (job.state, job.gpus, str(job.owner_id)) == (Phase.SUBMITTED, 2, str(world.scientist.pk))
    assert [row.phase for row in services.history_of(job)] == [Phase.SUBMITTED]
    entry = Entry.objects.get(action="job.submitted")
    assert (entry.target, entry.params) == (f"job:{job.pk}", {"name": "first light", "gpus": 2})


@pytest.mark.parametrize("pk", [-1, 2**40])
def test_a_draft_is_planned_for_the_place_in_which_its_job_will_be(world: World, pk: int) -> None:
    """A tenant may stand in two clusters; which row the database finds first says nothing."""
    other = Cluster.objects.create(slug="edge", name="Edge", server="http://127.0.0.1:1")
    Placement.objects.create(
        pk=pk, tenant=world.nlp, cluster=other, namespace="tenant-nlp-edge", queue="nlp", state=Placement.State.READY
    )
    use = overview.plan_of(factories.draft(world.scientist, world.nlp)).use
    assert use
    assert use.place == tenants.placement_of(world.nlp.pk)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.AUDITOR, Role.OPERATOR])
def test_only_scientists_and_team_admins_submit(world: World, role: Role) -> None:
    with pytest.raises(Denied):
        submit(world, role)
    assert not Job.objects.for_system().exists()


def test_the_double_click(world: World) -> None:
    """The same draft submitted twice is one job."""
    draft = factories.draft(world.scientist, world.nlp)
    actor = world.actor(Role.SCIENTIST)
    first, second = (services.submit_draft(actor, draft=draft) for _ in range(2))
    assert first == second
    assert Job.objects.for_system().count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["draft", "key"])
def test_eight_presses_at_once_are_one_job(how: str) -> None:
    world = World.make()
    actor, draft = world.actor(Role.SCIENTIST), factories.draft(world.scientist, world.nlp)
    made: list[str] = []

    def press() -> None:
        try:
            if how == "draft":
                job = services.submit_draft(actor, draft=Draft.objects.for_system().get(pk=draft.pk))
            else:
                job = services.submit(actor, tenant_id=world.nlp.pk, document=DOCUMENT, key="once")
            made.append(job.pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1


def test_a_key_used_for_another_document_is_refused(world: World) -> None:
    job = submit(world, key="k")
    assert submit(world, key="k") == job
    with pytest.raises(services.KeyReused):
        submit(world, key="k", steps=41)
    assert IdempotencyKey.objects.count() == Job.objects.for_system().count() == 1


def test_a_refused_document_keeps_its_key_free(world: World) -> None:
    with pytest.raises(services.InvalidDocument):
        submit(world, key="k", ranks="many")
    assert submit(world, key="k").pk


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"ranks": 3, "gpus_per_rank": 8}, "too-many-gpus"), ({"ranks": 3, "global_batch": 256}, "batch-ranks")],
)
def test_what_can_never_run_is_refused_before_it_waits(world: World, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(services.InvalidDocument) as caught:
        submit(world, **{"global_batch": 24, **changes})
    assert [problem.code for problem in caught.value.problems] == [code]


def test_a_tenant_without_a_place_is_told_so(world: World) -> None:
    world.place.delete()
    with pytest.raises(services.InvalidDocument) as caught:
        submit(world)
    assert caught.value.problems[0].code == "no-placement"


def test_own_jobs_are_stopped_by_their_owner_any_by_team_admin_and_operator(world: World) -> None:
    colleague = factories.user("colleague", Role.SCIENTIST, world.nlp)
    for actor, may in [
        (world.actor(Role.SCIENTIST), True),
        (world.actor(Role.TEAM_ADMIN), True),
        (world.actor(Role.OPERATOR), True),
        (colleague.actor(), False),
        (world.actor(Role.VIEWER), False),
        (world.actor(Role.AUDITOR), False),
        (world.stranger().actor(), False),
    ]:
        job = factories.job(world.scientist, world.place)
        assert services.may_control(actor, job) is may
        if may:
            services.stop(actor, job=job)
            job.refresh_from_db()
            assert (job.wanted, job.wanted_by) == (Wanted.STOP, actor.name)
        else:
            with pytest.raises(Denied):
                services.stop(actor, job=job)


def test_stop_suspend_and_resume_where_they_make_sense(world: World) -> None:
    actor, job = world.actor(Role.SCIENTIST), factories.job(world.scientist, world.place)
    with pytest.raises(services.NotNow):
        services.resume(actor, job=factories.job(world.scientist, world.place, phase=Phase.SUCCEEDED))
    services.suspend(actor, job=job)
    services.suspend(actor, job=job)
    services.resume(actor, job=job)
    services.stop(actor, job=job)
    services.stop(actor, job=job)
    with pytest.raises(services.NotNow):
        services.resume(actor, job=job)
    assert list(Entry.objects.order_by("id").values_list("action", flat=True)) == [
        "job.suspend",
        "job.resume",
        "job.stop",
    ]


def test_two_tabs_do_not_overwrite_each_other(world: World) -> None:
    actor, draft = world.actor(Role.SCIENTIST), factories.draft(world.scientist, world.nlp)
    other_tab = Draft.objects.for_system().get(pk=draft.pk)
    services.save_draft(actor, draft, {"name": "mine"}, version=1)
    with pytest.raises(services.StaleDraft):
        services.save_draft(actor, other_tab, {"name": "theirs"}, version=1)
    draft.refresh_from_db()
    assert draft.document["name"] == "mine"


def test_a_draft_keeps_what_was_typed_right_or_wrong(world: World) -> None:
    actor, draft = world.actor(Role.SCIENTIST), factories.draft(world.scientist, world.nlp)
    services.save_draft(actor, draft, {"ranks": "1.5", "steps": "many"}, version=1)
    assert draft.document["ranks"] == "1.5"
    assert {problem.field for problem in services.problems_of(draft, "size")} == {"ranks"}
    assert {problem.field for problem in services.problems_of(draft, "data")} == {"steps"}
    with pytest.raises(services.InvalidDocument):
        services.submit_draft(actor, draft=draft)


def test_a_draft_is_its_owners_alone(world: World) -> None:
    factories.draft(world.scientist, world.nlp)
    seen = {role: Draft.objects.visible_to(world.actor(role)).count() for role in Role}
    assert seen == {role: int(role is Role.SCIENTIST) for role in Role}


def test_what_people_see_is_their_tenants(world: World) -> None:
    factories.job(world.scientist, world.place)
    assert {role: Job.objects.visible_to(world.actor(role)).count() for role in Role} == dict.fromkeys(Role, 1)
    assert Job.objects.visible_to(world.stranger().actor()).count() == 0
    assert Job.objects.visible_to(factories.user("nobody").actor()).count() == 0


@pytest.mark.django_db(transaction=True)
def test_what_a_submission_by_rest_asks_of_the_database() -> None:
    """Fifty a second come in while a cluster is away; each statement is a round trip and a piece of the web process."""
    world = World.make()
    token = accounts.create_token(world.actor(Role.SCIENTIST), name="ci", days=1, read_only=False)
    client = Client(headers={"Authorization": f"Bearer {token}"})

    def post(key: str) -> None:
        body = {"tenant": "nlp", "document": DOCUMENT}
        answer = client.post("/api/v1/jobs", body, "application/json", headers={"Idempotency-Key": key})
        assert answer.status_code == 202

    post("the first, which notes that the token was used")
    with CaptureQueriesContext(connection) as queries:
        post("second")
    assert [query["sql"].split()[0] for query in queries] == [
        "SELECT",  # whose token it is, and what they are in their teams
        "SELECT",  # the tenant of that name
        "BEGIN",
        "SELECT",  # the key's turn
        "SELECT",  # the key's first answer
        "SELECT",  # place, tenant and cluster
        "INSERT",  # the job
        "INSERT",  # its history
        "INSERT",  # the record
        "INSERT",  # the key
        "INSERT",  # the hold, locked
        "UPDATE",  # what the tenant holds
        "UPDATE",  # the hold's amount
        "COMMIT",
    ]
