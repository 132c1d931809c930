"""The loss watch of a job, from points in the database to what is done and what people do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.types import Denied
from apps.audit.models import Entry
from apps.audit.services import names_for, plain_sentence
from apps.catalog.models import Transfer
from apps.catalog.services import Invalid
from apps.jobs import services
from apps.jobs.domain import losswatch as domain
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Draft, Job, LossWatch
from apps.jobs.reconcile.losswatch import watch_loss
from apps.jobs.services import losswatch, reading
from apps.jobs.services.checkpoints import checkpoints_of
from apps.jobs.services.registering import register_model
from apps.jobs.services.watched import watched
from apps.notices.models import Notice
from apps.notices.services import sentence as noticed
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.pages import browser

NAN = math.nan


def told(job: Job, losses: Sequence[float], *, attempt: int = 1, first: int = 1, every: int = 5) -> None:
    """The log tells a loss every five steps."""
    now = timezone.now()
    steps = [first + every * number for number in range(len(losses))]
    streams.record_points(
        job.topic, attempt, [("loss", step, loss, now) for step, loss in zip(steps, losses, strict=True)]
    )
    watch_loss(job.pk)


def saved(job: Job, *steps: int, attempt: int = 1) -> None:
    """The log tells of checkpoints."""
    streams.record_points(job.topic, attempt, [("checkpoint", step, 1.0, timezone.now()) for step in steps])


def running(world: World, **document: Any) -> Job:
    return factories.job(
        world.scientist, world.place, document=document, phase=Phase.RUNNING, running_at=timezone.now()
    )


def again(job: Job) -> Job:
    return Job.objects.for_system().select_related("owner", "tenant", "placement__cluster", "loss_watch").get(pk=job.pk)


@pytest.fixture
def diverged(world: World) -> Job:
    """Checkpoints of steps 10, 20 and 30; the loss of step 26 is above the limit."""
    job = running(world, learning_rate=2.0, steps=400)
    saved(job, 10, 20)
    told(job, [3.8, 3.2, 2.9, 2.7, 2.6, 2.5e6])
    saved(job, 30)
    return again(job)


# --- the verdict and what it does -------------------------------------------------------------------------------------


def test_a_diverged_job_is_suspended_by_the_watch_and_the_audit_says_why(world: World, diverged: Job) -> None:
    assert (diverged.wanted, diverged.wanted_by) == (Wanted.SUSPEND, losswatch.WATCH.name)
    entries = Entry.objects.filter(target=diverged.audit_id).order_by("id")
    assert [(entry.actor, entry.action) for entry in entries][-2:] == [
        ("system:losswatch", "job.loss-tripped"),
        ("system:losswatch", "job.suspend"),
    ]
    names = names_for(entries, Entry.objects.all())
    assert plain_sentence(entries.get(action="job.loss-tripped"), names) == (
        "The loss watch tripped on the job first light. The loss of step 26 is 2.5e+06, above the limit of 100."
    )
    assert plain_sentence(entries.get(action="job.suspend"), names) == "Loss watch suspended the job first light"
    notice = Notice.objects.for_system().get(user=world.scientist)
    assert noticed(notice).startswith("The loss watch tripped on your job first light. The loss of step 26")


def test_what_is_found_again_is_done_once(diverged: Job) -> None:
    told(diverged, [NAN], first=31)
    watch_loss(diverged.pk)
    assert Entry.objects.filter(action="job.loss-tripped").count() == 1
    assert LossWatch.objects.get(job=diverged).finding["rule"] == "limit"


def test_a_program_the_portal_does_not_know_is_marked_and_told_and_never_stopped(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    Job.objects.for_system().filter(pk=job.pk).update(
        document={"template": "command", "name": "own", "image": "a/b:1", "command": "run", "ranks": 2}
    )
    told(again(job), [2.0, NAN])
    job = again(job)
    assert job.wanted == Wanted.RUN
    assert job.loss_watch.marked
    assert Notice.objects.for_system().count() == 1


def test_one_that_has_ended_is_marked_and_said_not_to_be_suspended(world: World) -> None:
    job = running(world)
    Job.objects.for_system().filter(pk=job.pk).update(phase=Phase.FAILED, ended_at=timezone.now())
    told(job, [2.0, NAN])
    assert watched(again(job)).done[0] == "It was not suspended: it was “Failed” already."


def test_a_watch_that_is_off_judges_nothing(world: World) -> None:
    job = running(world, watch="off")
    told(job, [2.0, NAN])
    assert again(job).loss_watch.state == "ok"


def test_thresholds_and_actions_of_the_document_count(world: World) -> None:
    job = running(world, watch_limit="10", watch_actions=["mark"])
    told(job, [2.0, 11.0])
    job = again(job)
    assert (job.loss_watch.state, job.wanted, job.loss_watch.quarantine) == ("tripped", Wanted.RUN, False)
    assert Notice.objects.for_system().count() == 0


def test_a_restart_from_a_checkpoint_is_judged_as_if_nothing_had_broken(world: World) -> None:
    """Far beyond what is kept unsettled, and back to before it."""
    calm = [2.0 + 0.01 * (number % 3) for number in range(150)]
    job = running(world, watch_actions=["mark"])
    for start in range(0, 150, 10):
        told(job, calm[start : start + 10], first=1 + 5 * start)
    told(job, [2.8, 2.8], first=751)
    assert again(job).loss_watch.state == "suspect"
    told(job, calm[100:], attempt=2, first=501)
    assert again(job).loss_watch.state == "ok"
    told(job, [2.8, 2.8, 2.8], attempt=2, first=751)
    found = domain.Finding.load(again(job).loss_watch.finding)
    assert (found.rule, found.step, found.since, found.good) == ("sigma", 761, 751, 746)


def test_points_that_did_not_come_by_the_log_count_for_nothing(world: World) -> None:
    """Neither do they trip it, nor hide what the log says."""
    job, now = running(world), timezone.now()
    told(job, [2.5, 2.4])
    streams.record_points(job.topic, 1, [("loss", 11, NAN, now), ("loss", 16, 2.0, now)], origin=streams.Origin.PUSHED)
    streams.record_points(job.topic, 1, [("checkpoint", 11, 1.0, now)], origin=streams.Origin.PUSHED)
    watch_loss(job.pk)
    assert again(job).loss_watch.state == "ok"
    assert checkpoints_of(job) == []
    told(job, [NAN], first=16)
    assert again(job).loss_watch.finding["step"] == 16


def test_an_alert_is_told_once_and_suspends_nothing(world: World) -> None:
    job = running(world)
    told(job, [3.0, *[2.5] * 101])
    told(job, [2.5] * 5, first=511)
    job = again(job)
    assert (job.wanted, job.loss_watch.state, job.loss_watch.marked) == (Wanted.RUN, "suspect", True)
    (told_once,) = Notice.objects.for_system()
    assert noticed(told_once) == (
        "The loss watch noticed something about your job first light."
        " Since step 6 every loss is 2.5, to the last digit: nothing is learnt."
    )
    told(job, [2.4], first=536)
    assert (again(job).loss_watch.state, again(job).loss_watch.marked) == ("ok", False)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_checkpoints_after_the_last_good_step_are_offered_to_nobody(world: World, diverged: Job) -> None:
    assert [(one.step, one.good) for one in checkpoints_of(diverged)] == [(30, False), (20, True), (10, True)]
    document = {**factories.DOCUMENT, "resume_from": f"{diverged.pk}@30"}
    with pytest.raises(services.InvalidDocument, match="quarantined-checkpoint"):
        services.submit(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, document=document)
    register_model(world.actor(Role.SCIENTIST), job=diverged, said={"name": "m", "licence": "MIT"})
    assert Transfer.objects.get().source == {"claim": manifests.object_name(diverged.pk), "until_step": 21}


def test_a_job_whose_checkpoints_are_all_in_quarantine_makes_no_model(world: World) -> None:
    job = running(world)
    saved(job, 10)
    told(job, [NAN])
    with pytest.raises(Invalid):
        register_model(world.actor(Role.SCIENTIST), job=again(job), said={"name": "m", "licence": "MIT"})


def test_resuming_as_it_is_would_go_on_from_a_spoilt_checkpoint_and_is_refused(world: World, diverged: Job) -> None:
    with pytest.raises(services.Quarantined):
        services.resume(world.actor(Role.SCIENTIST), job=diverged)
    page = browser(world.scientist).get(reverse("jobs:detail", args=[diverged.pk])).content.decode()
    assert 'disabled aria-describedby="why-spoilt"' in page


def test_a_false_alarm_frees_checkpoints_and_only_later_points_count(world: World, diverged: Job) -> None:
    losswatch.dismiss(world.actor(Role.SCIENTIST), job=diverged)
    job = again(diverged)
    assert job.loss_watch.state == "ok"
    assert all(one.good for one in checkpoints_of(job))
    watch_loss(job.pk)
    assert again(job).loss_watch.state == "ok", "what was dismissed is not found again"
    told(job, [3.0, NAN], attempt=2, first=11)
    assert again(job).loss_watch.state == "tripped"


def test_a_checkpoint_of_another_tenant_is_not_there(world: World, diverged: Job) -> None:
    stranger = world.stranger()
    document = {**factories.DOCUMENT, "resume_from": f"{diverged.pk}@20"}
    with pytest.raises(services.InvalidDocument, match="unknown-checkpoint"):
        services.submit(stranger.actor(), tenant_id=world.vision.pk, document=document)


# --- two clicks -------------------------------------------------------------------------------------------------------


def test_the_button_leads_to_a_draft_that_can_be_submitted_as_it_is(world: World, diverged: Job) -> None:
    client = browser(world.scientist)
    page = client.get(reverse("jobs:detail", args=[diverged.pk])).content.decode()
    assert "Resume from step 20 with a tenth of the learning rate" in page
    answer = client.post(reverse("jobs:loss-again", args=[diverged.pk]))
    draft = Draft.objects.for_system().get()
    assert answer["Location"] == reverse("jobs:draft-review", args=[draft.pk])
    review = client.get(answer["Location"]).content.decode()
    assert "Submit to NLP" in review
    assert "MAAS_RESUME_STEP" in review
    client.post(reverse("jobs:draft-submit", args=[draft.pk]))
    job = Job.objects.for_system().get(pk=draft.job_id)
    assert (job.name, job.spec.parameters["learning_rate"]) == ("first light from step 20", 0.2)
    pod = manifests.job_manifests(job.pk, job.spec, reading.place(job.placement))[-1]["spec"]["tasks"][0]
    spec = pod["template"]["spec"]
    claim = {"claimName": manifests.object_name(diverged.pk), "readOnly": True}
    assert {"name": "resume", "persistentVolumeClaim": claim} in spec["volumes"]
    assert {"name": "resume", "mountPath": "/resume", "readOnly": True} in spec["containers"][0]["volumeMounts"]
    assert {"name": "MAAS_RESUME_STEP", "value": "20"} in spec["containers"][0]["env"]


def test_without_a_good_checkpoint_it_begins_again(world: World) -> None:
    job = running(world, learning_rate=2.0)
    told(job, [NAN])
    document = losswatch.again_document(again(job))
    assert (document.get("resume_from", ""), document["learning_rate"]) == ("", 0.2)


# --- settings while it runs -------------------------------------------------------------------------------------------


def test_settings_change_while_it_runs_and_the_rest_stays(world: World) -> None:
    job = running(world, watch_run="2")
    client = browser(world.scientist)
    address = reverse("api:job-watch", args=[job.pk])
    answer = client.patch(address, {"watch_limit": 5, "watch_actions": ["mark"]}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    kept = answer.json()["settings"]
    assert (kept["watch_limit"], kept["watch_run"], kept["watch_actions"]) == (5, 2, ["mark"])
    assert client.patch(address, {"watch_run": 0}, content_type="application/json").status_code == 400
    told(job, [2.0, 6.0])
    shown = client.get(address).json()
    assert (shown["state"], shown["rule"], shown["step"]) == ("tripped", "limit", 6)
    assert again(job).wanted == Wanted.RUN


def test_the_form_on_the_page_keeps_what_was_typed_beside_its_problem(world: World) -> None:
    job = running(world)
    client = browser(world.scientist)
    address = reverse("jobs:loss-watch", args=[job.pk])
    typed = {"watch": "spike", "watch_run": "1.5", "watch_actions": ["mark", "notify"]}
    answer = client.post(address, typed)
    assert answer.status_code == 422
    assert "“1.5” is not a whole number." in answer.content.decode()
    assert client.post(address, {**typed, "watch_run": ""}).status_code == 302
    settings = losswatch.settings_of(again(job))
    assert (settings.preset, settings.run, settings.actions) == ("spike", None, {"mark", "notify"})


def test_only_who_controls_a_job_changes_its_watch(world: World, diverged: Job) -> None:
    for act in (
        lambda actor: losswatch.dismiss(actor, job=diverged),
        lambda actor: losswatch.change_watch(actor, job=diverged, typed={"watch": "off"}),
    ):
        with pytest.raises(Denied):
            act(world.actor(Role.VIEWER))
    assert again(diverged).loss_watch.state == "tripped"


def test_the_list_marks_it(world: World, diverged: Job) -> None:
    assert "diverged" in browser(world.scientist).get(reverse("jobs:list")).content.decode()


def test_throughput_is_predicted_by_finished_jobs_that_did_the_same_work_and_its_operands_are_shown(
    world: World,
) -> None:
    def finished(name: str, speed: float, **document: Any) -> None:
        job = factories.job(world.scientist, world.place, document={"name": name, **document})
        Job.objects.for_system().filter(pk=job.pk).update(phase=Phase.SUCCEEDED)
        speeds = [100.0] * 30 + [speed] * 200  # slow while it began
        now = timezone.now()
        streams.record_points(job.topic, 1, [("tokens_per_second", n, value, now) for n, value in enumerate(speeds)])

    finished("one", 1000.0, learning_rate=0.3, steps=9000)
    finished("two", 1400.0, seed=7)
    finished("other batch", 9000.0, global_batch=512)
    finished("other ranks", 9000.0, ranks=4)
    job = running(world)
    speeds = [("tokens_per_second", n, 200.0, timezone.now()) for n in range(25)]
    streams.record_points(job.topic, 1, [*speeds, ("loss", 0, 2.0, timezone.now())])
    watch_loss(job.pk)
    finished("later", 5.0)
    watch_loss(job.pk)
    client = browser(world.scientist)
    told = client.get(f"/api/v1/jobs/{job.pk}/watch").json()
    assert told["predicted"] == {"tokens": 1200.0, "jobs": ["two", "one"]}
    (alert,) = told["alerts"]
    assert alert.startswith("Since step 20 the throughput is below a quarter of what finished jobs alike predict: 200")
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "17 % of the 1,200 predicted" in page
    assert "2 finished jobs that did the same work, the newest two" in page
    alone = running(world, global_batch=64)
    told_alone = client.get(f"/api/v1/jobs/{alone.pk}/watch").json()
    assert told_alone["predicted"] is None
