"""Jobs that are submitted while their cluster is known not to answer: nobody knocks, and none is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.domain import Role
from apps.clusters import services as clusters
from apps.jobs import services
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.jobs.services import background
from apps.tenants.models import Placement
from tests import factories
from tests.factories import DOCUMENT, World
from tests.messages import Messages, own_queue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def messages() -> Iterator[Messages]:
    with own_queue() as count:
        yield count


@pytest.fixture
def away(world: World) -> World:
    clusters.note_silence(world.place.cluster_id, "no route to host")
    return world


def submit(world: World, key: str = "") -> Job:
    return services.submit(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, document=DOCUMENT, key=key)


def due(job: Job) -> bool:
    return job.pk in background.due_jobs()


def answer(world: World) -> list[str]:
    """What the watch does with the first answer: it says so, then lists what waits."""
    clusters.note_answer(world.place.cluster_id, "v1.36.1")
    return background.waiting_jobs(world.place.cluster_id)


def elsewhere(act: Callable[[], None]) -> None:
    """Do it as another process would, with a connection of its own."""

    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_job_for_a_silent_cluster_waits_without_asking_it(away: World, messages: Messages) -> None:
    job = submit(away)
    job.refresh_from_db()
    assert (job.state, job.reason, job.failures) == (Phase.SUBMITTED, "waiting.cluster", 1)
    assert services.reading.reason_of(job) == services.reason_text("waiting.cluster", {})
    assert job.due_at > timezone.now() + timedelta(minutes=4)
    assert (messages(), due(job)) == (0, False)


def test_one_for_a_cluster_that_answers_is_taken_to_it_at_once(world: World, messages: Messages) -> None:
    job = submit(world)
    job.refresh_from_db()
    assert (job.reason, job.failures) == ("", 0)
    assert (messages(), due(job)) == (1, True)


def test_one_whose_place_is_not_made_waits_for_that_first(away: World, messages: Messages) -> None:
    Placement.objects.for_system().update(state=Placement.State.ASKED)
    assert (due(submit(away)), messages()) == (True, 1)


def test_what_was_submitted_before_the_answer_is_found_by_the_watch(away: World, messages: Messages) -> None:
    first, second = submit(away), submit(away)
    assert answer(away) == [first.pk, second.pk], "those that wait longest go first"
    assert messages() == 0, "the watch wakes them"
    assert (due(first), due(second)) == (True, True), "and should it be killed before, the sweep finds them"
    assert answer(away) == []


def test_what_is_committed_after_the_watch_has_listed_wakes_itself(away: World, messages: Messages) -> None:
    listed: list[str] = []
    with transaction.atomic():
        job = submit(away)
        elsewhere(lambda: listed.extend(answer(away)))
        assert messages() == 0, "nothing is sent before the commit"
    assert listed == [], "the watch could not see it yet"
    assert (messages(), due(job)) == (1, True)
    job.refresh_from_db()
    assert job.failures == 0


def test_a_cluster_that_went_away_again_meanwhile_wakes_it_the_next_time(away: World, messages: Messages) -> None:
    def comes_and_goes() -> None:
        assert answer(away) == []
        clusters.note_silence(away.place.cluster_id, "gone again")

    with transaction.atomic():
        job = submit(away)
        elsewhere(comes_and_goes)
    assert (messages(), due(job)) == (0, False)
    assert answer(away) == [job.pk]


def test_a_job_that_has_not_gone_in_yet_is_swept_before_those_that_have(world: World) -> None:
    waits = submit(world)
    factories.job(world.scientist, world.place, phase=Phase.WAITING)
    assert clusters.first_sweeps()["jobs.reconcile_job"]() == [waits.pk]
    assert len(background.due_jobs()) == 2


def test_the_same_key_again_is_the_same_waiting_job(away: World, messages: Messages) -> None:
    assert submit(away, key="k") == submit(away, key="k")
    assert Job.objects.for_system().count() == 1
    assert messages() == 0
