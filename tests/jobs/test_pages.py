"""Pages of jobs: who sees what, what is kept, what is asked of the services."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.audit.models import Entry
from apps.clusters.models import Cluster, ClusterNode
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Draft, Job, JobPhase, JobRank
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.pages import browser


def text(response: Any) -> str:
    return str(response.content.decode())


def running(world: World, **values: Any) -> Job:
    now = timezone.now()
    begun = now - timedelta(minutes=5)
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING, running_at=begun, **values)
    JobPhase.objects.filter(job=job).delete()
    for minutes, phase in ((9, Phase.SUBMITTED), (8, Phase.WAITING), (6, Phase.STARTING), (5, Phase.RUNNING)):
        JobPhase.objects.create(job=job, phase=phase, at=now - timedelta(minutes=minutes))
    readings = [("loss", step, 3 - step / 40, now - timedelta(seconds=2 * (20 - step))) for step in range(1, 21)]
    streams.record_points(job.topic, 1, readings)
    for rank in range(2):
        JobRank.objects.create(
            job=job,
            pod_uid=str(uuid.uuid4()),
            pod_name=f"j-x-worker-{rank}",
            attempt=1,
            rank=rank,
            node=f"gpu-000{rank + 1}",
            phase="Running",
            started_at=begun,
        )
    return job


# --- the list ---------------------------------------------------------------------------------------------------------


def test_a_page_of_the_list_takes_three_queries_for_any_number_of_jobs(world: World) -> None:
    client = browser(world.people[Role.VIEWER])
    counts = []
    for _round in range(2):
        for number in range(8):
            running(world, document={"name": f"run {number}"})
        client.get(reverse("jobs:list"))
        with CaptureQueriesContext(connection) as queries:
            page = client.get(reverse("jobs:list"))
        counts.append(len(queries))
        about = [q["sql"] for q in queries.captured_queries if "jobs_job" in q["sql"] or "streams_point" in q["sql"]]
        assert len(about) == 3, about
    assert counts[0] == counts[1] <= 8  # with who is asking, their session, roles, tenants and unread notices
    assert text(page).count('<tr id="job-') == 16
    assert "20 of 40" in text(page)
    assert "<b>16</b> run on <b>32 GPUs</b>" in text(page)


def test_older_and_newer_pages_meet_without_gap_or_double(world: World) -> None:
    made = [factories.job(world.scientist, world.place, document={"name": f"run {n:03}"}).pk for n in range(120)]
    client = browser(world.scientist)

    def ids(query: str) -> tuple[list[str], Any]:
        page = client.get(reverse("jobs:list") + "?" + query).context["page"]
        return [row.job.pk for row in page.rows], page

    first, page = ids("mine=1")
    assert page.newer == ""
    second, page = ids(page.older)
    third, last = ids(page.older)
    assert first + second + third == sorted(made, reverse=True)
    assert (len(first), len(second), len(third), last.older) == (50, 50, 20, "")
    assert "mine=1" in page.older, "the filters stay"
    back, _page = ids(last.newer)
    assert back == second


def test_filters_are_in_the_address_and_a_value_nobody_knows_filters_nothing(world: World) -> None:
    factories.job(world.scientist, world.place, document={"name": "alpha"}, phase=Phase.FAILED)
    factories.job(world.people[Role.TEAM_ADMIN], world.place, document={"name": "Beta 100%"})
    client = browser(world.scientist)

    def names(**query: str) -> list[str]:
        return [row.job.name for row in client.get(reverse("jobs:list"), query).context["page"].rows]

    assert names(state="failed") == ["alpha"]
    assert names(mine="1") == ["alpha"]
    assert names(q="0%") == ["Beta 100%"]
    assert names(tenant="vision") == []
    assert names(state="nonsense", before="x'; --") == ["Beta 100%", "alpha"]


def test_a_stranger_sees_neither_row_nor_page_nor_part(world: World) -> None:
    job = running(world)
    client = browser(world.stranger())
    assert job.name not in text(client.get(reverse("jobs:list")))
    assert job.pk not in text(client.get(reverse("jobs:list"), {"part": "rows", "id": job.pk}))
    for part in ("", "?part=state", "?part=tab&tab=manifests"):
        assert client.get(reverse("jobs:detail", args=[job.pk]) + part).status_code == 404
    assert client.post(reverse("jobs:clone", args=[job.pk])).status_code == 404
    assert client.post(reverse("jobs:stop", args=[job.pk])).status_code == 404


def test_living_rows_come_anew_and_newer_jobs_are_only_counted(world: World) -> None:
    job = running(world)
    client = browser(world.scientist)
    page = text(client.get(reverse("jobs:list")))
    assert f"part=rows&amp;id={job.pk}" in page
    factories.job(world.scientist, world.place)
    rows = text(client.get(reverse("jobs:list"), {"part": "rows", "id": job.pk}))
    assert rows.count("<tr") == 1
    assert 'hx-swap-oob="true"' in rows
    assert 'id="jobs-answer" hx-swap-oob' in rows
    assert "<b>1</b> waits" in rows, "what all of them do comes with it"
    assert "1 new job, show" in text(client.get(reverse("jobs:list"), {"part": "newer", "first": job.pk}))


# --- the page of one job ----------------------------------------------------------------------------------------------


def test_the_first_line_answers_how_far_and_how_well(world: World) -> None:
    job = running(world)
    page = text(browser(world.people[Role.VIEWER]).get(reverse("jobs:detail", args=[job.pk])))
    assert "Step <b>20</b> of 40, 50 %" in page
    assert "ready about" in page
    assert "gpu-0001, gpu-0002" in page
    assert page.count("<button") > 0
    assert "Only its owner or a team admin may suspend or stop it." in page


def test_the_time_line_is_to_scale(world: World) -> None:
    job = running(world)
    picture = browser(world.scientist).get(reverse("jobs:detail", args=[job.pk])).context["picture"]
    widths = [part.width for part in picture.parts]
    assert [part.tone for part in picture.parts] == ["blue", "amber", "blue", "green"]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.02)
    assert picture.parts[-1].x + widths[-1] == pytest.approx(picture.now, abs=0.1)
    assert picture.now < 100, "what is to come has its room"


def test_a_silent_cluster_is_said_and_its_jobs_are_unknown(world: World) -> None:
    job = running(world)
    Cluster.objects.update(unreachable_since=timezone.now() - timedelta(minutes=6))
    client = browser(world.scientist)
    page = text(client.get(reverse("jobs:detail", args=[job.pk])))
    assert "Cluster Train A does not answer." in page
    assert "Unknown since" in page
    Job.objects.update(phase=Phase.SUCCEEDED, ended_at=timezone.now())
    assert "Unknown since" not in text(client.get(reverse("jobs:list"))), "what has ended is known"


def test_the_raw_words_of_the_cluster_are_one_click_away_and_harmless(world: World) -> None:
    job = factories.job(
        world.scientist,
        world.place,
        phase=Phase.WAITING,
        reason="waiting.nodes",
        reason_params={"text": "<script>alert(1)</script> 0/4 nodes"},
    )
    page = text(browser(world.scientist).get(reverse("jobs:detail", args=[job.pk])))
    assert "<details" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page


def test_stop_says_what_happens_and_works_with_and_without_scripts(world: World) -> None:
    client = browser(world.scientist)
    plain, scripted = running(world), running(world)
    asked = text(client.get(reverse("jobs:stop", args=[plain.pk])))
    assert "Its checkpoints, log and curve stay." in asked
    answer = client.post(reverse("jobs:stop", args=[plain.pk]))
    assert answer["Location"] == reverse("jobs:detail", args=[plain.pk])
    answer = client.post(reverse("jobs:stop", args=[scripted.pk]), headers={"HX-Request": "true"})
    assert 'id="state"' in text(answer)
    assert "toast" in answer["HX-Trigger"]
    assert set(Job.objects.values_list("wanted", flat=True)) == {Wanted.STOP}


def test_what_cannot_be_done_now_is_said_and_changes_nothing(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.SUCCEEDED, ended_at=timezone.now())
    page = browser(world.scientist).post(reverse("jobs:suspend", args=[job.pk]), follow=True)
    assert "Nothing was changed: the job is “Succeeded”." in text(page)
    job.refresh_from_db()
    assert job.wanted == Wanted.RUN


def test_a_member_without_the_right_is_refused_and_that_is_recorded(world: World) -> None:
    job = running(world)
    answer = browser(world.people[Role.VIEWER]).post(reverse("jobs:stop", args=[job.pk]))
    assert answer.status_code == 403
    assert Entry.objects.get(action="job.stop").result == "refused"


def test_a_clone_is_a_draft_that_differs_where_it_was_changed(world: World) -> None:
    job = running(world)
    client = browser(world.scientist)
    client.post(reverse("jobs:clone", args=[job.pk]))
    draft = Draft.objects.get()
    client.post(reverse("jobs:draft-size", args=[draft.pk]), {"version": 1, "ranks": "4", "go": "next"})
    page = client.get(reverse("jobs:draft-review", args=[draft.pk]))
    assert [(str(label), old, new) for label, old, new in page.context["changes"]] == [("Number of ranks", "2", "4")]


def test_what_moves_with_every_step_comes_by_itself(world: World) -> None:
    job = running(world)
    client = browser(world.scientist)
    page = text(client.get(reverse("jobs:detail", args=[job.pk])))
    assert f'hx-get="{reverse("jobs:detail", args=[job.pk])}?part=steps" hx-trigger="points from:body"' in page
    assert page.count('id="lasted"') == page.count('id="time-line"') == 1
    streams.record_points(job.topic, 1, [("loss", 21, 2.0, timezone.now())])
    steps = text(client.get(reverse("jobs:detail", args=[job.pk]), {"part": "steps"}))
    assert "Step <b>21</b> of 40" in steps
    assert steps.count("hx-swap-oob") == 3
    assert "<button" not in steps, "whoever stands on a button stays there"
    rows = text(client.get(reverse("jobs:detail", args=[job.pk]), {"part": "ranks"}))
    assert rows.strip().startswith("<tr>")
    assert "5 min" in rows


def test_a_restart_is_told_with_its_reason_and_what_it_cost(world: World) -> None:
    job = running(world)
    now, broke = timezone.now(), {"reason": "failed.exit", "reason_params": {"rank": 1, "code": 137}}
    JobPhase.objects.create(job=job, phase=Phase.RESTARTING, attempt=2, at=now - timedelta(minutes=3), **broke)
    JobPhase.objects.create(job=job, phase=Phase.RUNNING, attempt=2, at=now - timedelta(minutes=2))
    Job.objects.update(attempt=2)
    streams.record_points(job.topic, 2, [("loss", step, 2.0, now + timedelta(seconds=step)) for step in range(15, 30)])
    page = text(browser(world.scientist).get(reverse("jobs:detail", args=[job.pk])))
    assert "Restarted once." in page
    assert "Rank 1 ended with exit code 137" in page
    assert "with step 15; 6 steps were made again." in page, "20 was the last before it broke"
    assert 'data-broke="1 "' in page


def test_the_pace_is_read_from_the_log_and_gpu_hours_count_from_a_place_on(world: World) -> None:
    job = running(world)
    streams.record_points(job.topic, 1, [("tokens_per_second", step, 21500.0, timezone.now()) for step in (19, 20)])
    pace = browser(world.scientist).get(reverse("jobs:detail", args=[job.pk])).context["pace"]
    assert (pace.tokens, pace.step_seconds) == (21500, 2)
    assert pace.gpu_hours == pytest.approx(2 * 6 / 60, rel=0.02), "two GPUs for six minutes, its time to start included"


def test_a_job_that_is_being_suspended_can_go_on_and_says_so(world: World) -> None:
    job = running(world)
    Job.objects.update(phase=Phase.SUSPENDING, wanted=Wanted.SUSPEND)
    client = browser(world.scientist)
    page = text(client.get(reverse("jobs:detail", args=[job.pk])))
    assert '<button class="btn" id="act-suspend" >' in page
    assert "Resume job" in page
    client.post(reverse("jobs:resume", args=[job.pk]))
    assert "resumed: it goes on as soon as" in text(client.get(reverse("jobs:detail", args=[job.pk])))


def test_nobody_is_sent_to_log_lines_that_are_not_there(world: World) -> None:
    reason = {"reason": "failed.exit", "reason_params": {"rank": 1, "code": 3}}
    job = running(world, **reason)
    Job.objects.update(phase=Phase.FAILED, ended_at=timezone.now())
    client, where = browser(world.scientist), reverse("jobs:detail", args=[job.pk])

    def write(rank: int, attempt: int) -> None:
        line = streams.LogLine(1, "ERROR", rank, None, "boom")
        streams.append(job.topic, streams.LogFrame(streams.Source(rank, attempt, "pod"), [line]))

    write(1, job.attempt + 1)
    write(0, job.attempt)
    page = text(client.get(where))
    assert "Rank 1 ended with exit code 3, and the log holds no line of its last run" in page
    write(1, job.attempt)
    assert "Its last log lines say why." in text(client.get(where))


# --- the wizard -------------------------------------------------------------------------------------------------------


def begin(world: World, client: Any, template: str = "charlm") -> Draft:
    client.post(reverse("jobs:new"), {"tenant": "nlp", "template": template})
    return Draft.objects.latest("created_at")


def test_only_who_may_submit_there_begins_a_draft_there(world: World) -> None:
    assert browser(world.people[Role.VIEWER]).get(reverse("jobs:new")).status_code == 403
    client = browser(world.stranger())
    client.post(reverse("jobs:new"), {"tenant": "nlp", "template": "charlm"})
    client.post(reverse("jobs:new"), {"tenant": "vision", "template": "../../etc"})
    assert not Draft.objects.exists()


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_can_be_walked_through(world: World, template: str) -> None:
    client = browser(world.scientist)
    draft = begin(world, client, template)
    for step in ("data", "size", "review"):
        assert client.get(reverse(f"jobs:draft-{step}", args=[draft.pk]), {"check": "1"}).status_code == 200
    shown = set(client.get(reverse("jobs:draft-data", args=[draft.pk])).context["form"].fields)
    assert shown >= TEMPLATES[template].fields.keys()


@pytest.mark.parametrize("go", ["next", "back", "leave", "save"])
def test_every_way_out_of_a_step_keeps_what_was_typed_right_or_wrong(world: World, go: str) -> None:
    client = browser(world.scientist)
    draft = begin(world, client)
    typed = {"name": "../Ünï 模型", "steps": "1e400", "learning_rate": "abc", "note": "a\r\nb"}
    client.post(reverse("jobs:draft-data", args=[draft.pk]), {**typed, "version": 1, "go": go})
    draft.refresh_from_db()
    assert {key: draft.document[key] for key in typed} == {**typed, "note": "a\nb"}
    page = text(client.get(reverse("jobs:draft-data", args=[draft.pk])))
    assert "1e400" in page
    assert "is not a number" not in page, "not shouted at before they asked to go on"


def test_faults_stand_beside_their_field_and_in_a_summary_that_leads_there(world: World) -> None:
    client = browser(world.scientist)
    draft = begin(world, client)
    data = {"version": 1, "name": "a/b", "steps": "1.5", "go": "next"}
    answer = client.post(reverse("jobs:draft-data", args=[draft.pk]), data)
    page = text(answer)
    assert answer.status_code == 422
    assert '<a href="#id_steps">' in page
    assert "“1.5” is not a whole number." in page
    assert 'id="id_name_error"' in page
    assert 'aria-invalid="true"' in page
    review = text(client.get(reverse("jobs:draft-review", args=[draft.pk])))
    assert f"{reverse('jobs:draft-data', args=[draft.pk])}?check=1#id_steps" in review
    assert "Submit to" not in review


def test_a_second_tab_is_shown_both_versions_and_nothing_is_written(world: World) -> None:
    client = browser(world.scientist)
    draft = begin(world, client)
    where = reverse("jobs:draft-data", args=[draft.pk])
    client.post(where, {"version": 1, "name": "first tab", "go": "save"})
    answer = client.post(where, {"version": 1, "name": "second tab", "go": "next"})
    assert answer.status_code == 409
    assert "first tab" in text(answer)
    assert "second tab" in text(answer)
    draft.refresh_from_db()
    assert (draft.document["name"], draft.version) == ("first tab", 2)
    client.post(where, {"version": 2, "name": "second tab", "go": "next"})
    draft.refresh_from_db()
    assert draft.document["name"] == "second tab"


def test_a_size_that_fits_is_shown_on_nodes_as_they_are_and_with_the_quota_after(world: World) -> None:
    cluster = world.place.cluster
    for name, used in (("gpu-a", 2), ("gpu-b", 0)):
        ClusterNode.objects.create(cluster=cluster, name=name, product="NVIDIA-A800-SXM4-80GB", resource="nvidia.com/gpu",
                                   total=4, used=used, ready=True)  # fmt: skip
    Cluster.objects.filter(pk=cluster.pk).update(seen_at=timezone.now())
    client = browser(world.scientist)
    client.post(reverse("jobs:new"), {"tenant": "nlp", "template": "charlm"})
    draft = Draft.objects.get()
    draft.document |= {"name": "three", "ranks": "3", "gpus_per_rank": "2"}
    draft.save()
    page = client.get(reverse("jobs:draft-size", args=[draft.pk]))
    spots = page.context["layout"].spots
    assert [(spot.node.name, spot.cells) for spot in spots] == [
        ("gpu-a", [None, None, "0", "0"]),
        ("gpu-b", ["1", "1", "2", "2"]),
    ], "the fullest first, as the scheduler packs"
    assert "6 × A800 80G" in text(page)
    assert page.context["layout"].after == 6


def test_a_draft_is_its_owners_alone(world: World) -> None:
    draft = begin(world, browser(world.scientist))
    admin = browser(world.people[Role.TEAM_ADMIN])
    for step in ("data", "size", "review"):
        assert admin.get(reverse(f"jobs:draft-{step}", args=[draft.pk])).status_code == 404
    assert admin.post(reverse("jobs:draft-discard", args=[draft.pk])).status_code == 404
    assert admin.post(reverse("jobs:draft-submit", args=[draft.pk])).status_code == 404


def test_review_shows_what_is_sent_and_asks_the_server_once_for_each_version(world: World) -> None:
    client = browser(world.scientist)
    draft = begin(world, client)
    client.post(reverse("jobs:draft-data", args=[draft.pk]), {"version": 1, "name": "x", "go": "save"})
    where = reverse("jobs:draft-review", args=[draft.pk])
    page = text(client.get(where))
    assert "<b>kind:</b> Job" in page
    assert "<b>  minAvailable:</b> 2" in page
    assert "&amp;id" not in page, "both tasks' templates are written out"
    assert "hx-post" in page, "nobody has asked yet"
    client.post(reverse("jobs:draft-dry-run", args=[draft.pk]), headers={"HX-Request": "true"})
    assert "hx-post" not in text(client.get(where, {"part": "answer"})).split("<form")[0]
    with time_machine.travel(timezone.now() + timedelta(seconds=16)):
        lost = text(client.get(where, {"part": "answer"}))
    assert 'hx-trigger="load"' in lost.split("<form")[0], "a question that was lost is asked again"
    accepted = {
        "state": "accepted",
        "version": 2,
        "objects": [{"kind": "Job", "name": "j"}],
        "warnings": [],
        "text": "",
    }
    Draft.objects.update(dry_run=accepted)
    assert "The API server accepts it" in text(client.get(where))
    Draft.objects.update(dry_run={**accepted, "state": "refused", "text": "denied: <b>quota</b>"})
    assert "denied: &lt;b&gt;quota" in text(client.get(where, {"part": "answer"}))
    client.post(reverse("jobs:draft-data", args=[draft.pk]), {"version": 2, "steps": "7", "go": "save"})
    assert "The API server refuses it" not in text(client.get(where)), "an answer counts for its version only"


def test_pressing_submit_twice_makes_one_job(world: World) -> None:
    client = browser(world.scientist)
    draft = begin(world, client)
    client.post(reverse("jobs:draft-data", args=[draft.pk]), {"version": 1, "name": "once", "go": "save"})
    answers = [client.post(reverse("jobs:draft-submit", args=[draft.pk])) for _press in range(2)]
    assert Job.objects.count() == 1
    assert {answer["Location"] for answer in answers} == {reverse("jobs:detail", args=[draft.job_id])}
    assert client.get(reverse("jobs:draft-data", args=[draft.pk]))["Location"].endswith(f"/jobs/{draft.job_id}/")
    assert "once" not in text(client.get(reverse("jobs:drafts")))


def test_submit_is_grey_with_its_reason_where_the_queue_never_gives_so_much(world: World) -> None:
    client = browser(world.scientist)
    draft = begin(world, client)
    client.post(reverse("jobs:draft-data", args=[draft.pk]), {"version": 1, "name": "huge", "go": "save"})
    client.post(reverse("jobs:draft-size", args=[draft.pk]), {"version": 2, "ranks": "32", "go": "save"})
    page = text(client.get(reverse("jobs:draft-review", args=[draft.pk])))
    assert "Grey because it asks for more GPUs than the queue ever gives." in page
    client.post(reverse("jobs:draft-submit", args=[draft.pk]))
    assert not Job.objects.exists()


def test_a_long_history_and_many_drafts_come_by_the_page_and_stay_there_when_asked_for_again(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    JobPhase.objects.bulk_create(JobPhase(job=job, phase=Phase.RUNNING, attempt=n) for n in range(2, 61))
    client, path = browser(world.scientist), reverse("jobs:detail", args=[job.pk])
    first = client.get(path, {"tab": "history"})
    assert len(first.context["history"].rows) == 50
    more = client.get(f"{path}?{first.context['history'].older}")
    assert [move.attempt for move, _phase, _text in more.context["history"].rows] == list(range(51, 61))
    assert f"part=tab&amp;tab=history&amp;{more.context['place']}" in more.content.decode()
    Draft.objects.bulk_create(Draft(tenant=job.tenant, owner=world.scientist) for _n in range(55))
    drafts = client.get(reverse("jobs:drafts"))
    rest = client.get(f"{reverse('jobs:drafts')}?{drafts.context['page'].older}")
    assert (len(drafts.context["drafts"]), len(rest.context["drafts"])) == (50, 5)


def test_a_draft_keeps_what_was_typed_beside_what_cannot_be_stored(world: World) -> None:
    draft = factories.draft(world.scientist, world.nlp, template="command", image="x", command="echo 1")
    client, url = browser(world.scientist), reverse("jobs:draft-data", args=[draft.pk])
    typed = {"version": draft.version, "go": "next", "name": "kept", "command": "echo \0", "note": "a\0b"}
    answer = client.post(url, typed)
    assert answer.status_code == 422
    assert 'value="kept"' in text(answer)
    assert text(answer).count("characters that cannot be shown") >= 2
    assert client.get(url).status_code == 200
