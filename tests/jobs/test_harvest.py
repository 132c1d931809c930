"""Event files in a job's volume: found by themselves, read on where they were left, no point twice, and taken away."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from apps.adapters.kubernetes import objects
from apps.audit.models import Entry
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect
from apps.jobs import moves
from apps.jobs.domain import manifests, sidepods
from apps.jobs.domain.harvest import EMPTY, Folders, Harvest, attempt_of, pause, pause_broken
from apps.jobs.domain.phases import Phase
from apps.jobs.models import EventReader, Job, JobRank
from apps.jobs.reconcile.harvest import reconcile_events
from apps.jobs.services import background, harvesting
from apps.jobs.services.harvest_words import event_files_of
from apps.streams import services as streams
from deploy.workloads.charlm.events import EventFile
from deploy.workloads.events.__main__ import main
from tests import factories
from tests.factories import Role, World
from tests.pages import browser

OWN = {"template": "command", "image": "maas/python:1", "command": "python train.py"}
CASES = Path(settings.BASE_DIR) / "tests" / "cases" / "events"
T0 = datetime(2026, 11, 30, 12, tzinfo=UTC)


def own(owner: Any, place: Any, **values: Any) -> Job:
    """A job that runs somebody's own program."""
    job = factories.job(owner, place, **values)
    Job.objects.filter(pk=job.pk).update(document={"name": "own", "ranks": 1, **OWN})
    job.refresh_from_db()
    return job


@pytest.fixture
def job(world: World) -> Job:
    return own(world.scientist, world.place, phase=Phase.STARTING)


def move(job: Job, to: Phase) -> None:
    moves.move(job, to, moves.Facts(job.attempt))


class Pod:
    """What the pod says, over HTTP."""

    def __init__(self, job: Job) -> None:
        self.job, self.token = job, ""

    @classmethod
    def sent(cls, job: Job) -> Pod:
        """A pod that the portal has just sent."""
        pod = cls(job)
        reader, _made = EventReader.objects.get_or_create(job=job)
        pod.token = harvesting.new_token(reader)
        harvesting.note_sent(reader)
        return pod

    def ask(self, method: str, document: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        body = b"" if document is None else json.dumps(document).encode()
        return Client(headers=headers).generic(method, f"/artifacts/events/{self.job.pk}", body, "application/json")

    def tell(self, path: str, start: int, next_: int, *scalars: Any, begun: float | None = None) -> Any:
        told = {"path": path, "from": start, "next": next_, "begun": begun, "scalars": list(scalars)}
        return self.ask("PUT", told)

    def look(self, files: int, scalars: int = 0, waiting: int = 0, *, last: bool = False) -> dict[str, Any]:
        told = {"files": files, "waiting": waiting, "scalars": scalars, "last": last}
        answer: dict[str, Any] = self.ask("POST", told).json()
        return answer

    @property
    def row(self) -> EventReader:
        return EventReader.objects.get(pk=self.job.pk)


def points(job: Job) -> list[tuple[str, int, int, float]]:
    return [(one.series, one.attempt, one.step, one.value) for one in streams.told(job.topic)]


# --- when it looks ----------------------------------------------------------------------------------------------------


def test_a_minute_after_a_job_began_and_at_its_end(job: Job) -> None:
    move(job, Phase.RUNNING)
    row = EventReader.objects.get()
    assert row.next_at is not None
    assert timedelta(seconds=55) < row.next_at - timezone.now() <= timedelta(seconds=60)
    assert row.due_at == row.next_at
    move(job, Phase.SUCCEEDED)
    row.refresh_from_db()
    assert row.next_at is not None
    assert row.next_at <= timezone.now()
    assert background.due_readers() == [job.pk]


def test_one_that_was_too_quick_to_be_seen_running_is_looked_into_at_its_end(job: Job) -> None:
    move(job, Phase.SUCCEEDED)
    assert background.due_readers() == [job.pk]


def test_nobody_looks_where_none_can_be_or_operators_do_not_want_it(world: World, settings: Any) -> None:
    """The demonstration's own template is known to write none."""
    known = factories.job(world.scientist, world.place, phase=Phase.STARTING)
    move(known, Phase.RUNNING)
    failed = own(world.scientist, world.place, phase=Phase.WAITING)
    move(failed, Phase.FAILED)
    settings.EVENTS_IMAGE = ""
    unwanted = own(world.scientist, world.place, phase=Phase.STARTING)
    move(unwanted, Phase.RUNNING)
    assert not EventReader.objects.exists()
    assert event_files_of(known) is None
    told = event_files_of(unwanted)
    assert told is not None
    assert told.state == "off"


def test_pauses_grow_and_end() -> None:
    assert [pause(n) for n in (1, 2, 9)] == [EMPTY[0], EMPTY[1], timedelta(hours=1)]
    assert [pause_broken(n) is None for n in (1, 3, 4)] == [False, False, True]


# --- what the pod tells -----------------------------------------------------------------------------------------------


def test_a_piece_becomes_points_that_say_where_they_come_from(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    assert pod.ask("GET").json() == {"files": {}, "ended": False}
    at = T0.timestamp()
    assert pod.tell("runs/a", 0, 90, ["train/loss", 1, "2.5", at], ["acc", 1, "nan", at]).json() == {"next": 90}
    assert pod.tell("runs/a", 90, 120, ["train/loss", 2, "2.25", at]).json() == {"next": 120}
    found = list(streams.told(job.topic))
    assert [(one.series, one.step, repr(one.value)) for one in found] == [
        ("acc", 1, "nan"), ("loss", 1, "2.5"), ("loss", 2, "2.25"),
    ]  # fmt: skip
    assert {one.origin.word for one in found} == {"tensorboard"}
    assert {one.at for one in found} == {T0}
    assert streams.logged(job.topic, ("loss",), limit=9) == [], "no verdict is built on them"
    assert (pod.row.points, pod.row.files["runs/a"]["next"]) == (3, 120)
    assert pod.ask("GET").json()["files"] == {"runs/a": 120}
    assert Entry.objects.filter(action="job.events-found", target=f"job:{job.pk}").count() == 1


def test_a_lost_answer_or_a_pod_made_anew_doubles_nothing(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    piece = ("runs/a", 0, 90, ["loss", 1, "2.5", 1.0])
    assert pod.tell(*piece).status_code == 200
    again = pod.tell(*piece)
    assert (again.status_code, again.json()["next"]) == (409, 90)
    assert pod.tell("runs/a", 200, 300).json()["next"] == 90, "nothing is passed over"
    assert (points(job), pod.row.points) == ([("loss", 1, 1, 2.5)], 1)


def test_what_the_log_says_goes_before(job: Job) -> None:
    move(job, Phase.RUNNING)
    streams.record_points(job.topic, 1, [("loss", 1, 3.0, T0)])
    Pod.sent(job).tell("runs/a", 0, 90, ["loss", 1, "2.5", 1.0])
    assert points(job) == [("loss", 1, 1, 3.0)]


def test_a_file_belongs_to_the_attempt_in_which_it_was_begun(job: Job) -> None:
    for attempt, start in ((1, T0), (2, T0 + timedelta(hours=1))):
        JobRank.objects.create(
            job=job, pod_uid=f"u{attempt}", pod_name="p", attempt=attempt, rank=0, phase="Running", started_at=start
        )
    Job.objects.filter(pk=job.pk).update(attempt=2)
    job.refresh_from_db()
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    pod.tell("runs/late", 0, 9, ["loss", 5, "1", 1.0], begun=(T0 + timedelta(hours=2)).timestamp())
    pod.tell("runs/early", 0, 9, ["loss", 5, "2", 1.0], begun=(T0 + timedelta(minutes=1)).timestamp())
    pod.tell("runs/early", 9, 18, ["loss", 6, "2", 1.0])
    assert points(job) == [("loss", 1, 5, 2.0), ("loss", 1, 6, 2.0), ("loss", 2, 5, 1.0)]
    assert attempt_of(0.0, {2: T0, 3: T0}, 3) == 2, "an odd clock: the oldest that is known"
    assert attempt_of(None, {}, 3) == 3


def test_runs_side_by_side_with_the_same_tag_are_curves_of_their_own(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    pod.tell("logs/train/a", 0, 9, ["epoch_loss", 1, "2", 1.0])
    pod.tell("logs/validation/a", 0, 9, ["epoch_loss", 1, "3", 1.0], ["损失", 1, "3", 1.0], ["ok", -1, "3", 1.0])
    pod.tell("logs/train/b", 0, 9, ["epoch_loss", 2, "1.5", 1.0])
    assert points(job) == [
        ("epoch_loss", 1, 1, 2.0), ("epoch_loss", 1, 2, 1.5), ("validation/epoch_loss", 1, 1, 3.0),
    ]  # fmt: skip
    assert pod.row.left_out == 2
    many = Folders({})
    assert sum(bool(many.series(1, "a/x", f"tag{n}")) for n in range(130)) == 100


def test_odd_documents_and_other_tokens_change_nothing(world: World, job: Job) -> None:
    move(job, Phase.RUNNING)
    pod, other = Pod.sent(job), own(world.scientist, world.place, phase=Phase.STARTING)
    move(other, Phase.RUNNING)
    stranger = Pod.sent(other)
    stranger.job = job
    assert stranger.tell("a", 0, 9).status_code == 401
    for scalars in ([1], [["a", 1, "x", 1.0]], [["a", True, "1", 1.0]], [["a", 1, "1"]], "abc"):
        assert pod.ask("PUT", {"path": "a", "from": 0, "next": 9, "scalars": scalars}).status_code == 422
    for told in (
        [],
        None,
        {"path": "", "from": 0, "next": 1, "scalars": []},
        {"path": "a", "from": 3, "next": 3, "scalars": []},
    ):
        assert pod.ask("PUT", told).status_code == 422
    assert pod.ask("POST", {"files": -1}).status_code == 422
    assert pod.tell("a", 0, 9, *[["a", 1, "1", 1.0]] * 10_001).status_code == 422
    EventReader.objects.update(token_until=timezone.now() - timedelta(seconds=1))
    assert pod.tell("a", 0, 9).status_code == 401
    assert not points(job)


# --- whether another look is worth it ---------------------------------------------------------------------------------


def test_a_pod_that_finds_nothing_goes_and_another_comes_later(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    assert pod.look(0)["enough"]
    row = pod.row
    assert (row.state, row.empty, row.token_digest) == (Harvest.WAITING, 1, "")
    assert row.next_at is not None
    assert EMPTY[0] - timedelta(seconds=9) < row.next_at - timezone.now() <= EMPTY[0]
    assert event_files_of(job_again(job)).said == "No TensorBoard event files in /checkpoints yet."  # type: ignore[union-attr]


def job_again(job: Job) -> Job:
    return Job.objects.for_system().select_related("event_reader").get(pk=job.pk)


def test_a_pod_that_finds_some_stays_until_the_job_has_ended_and_looks_once_more(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    pod.tell("runs/a", 0, 9, ["loss", 1, "2", 1.0])
    assert pod.look(1, 1) == {"enough": False, "pause": 10.0, "ended": False}
    assert pod.look(1) == {"enough": False, "pause": 30.0, "ended": False}
    move(job, Phase.SUCCEEDED)
    assert pod.look(1) == {"enough": False, "pause": 30.0, "ended": True}, "that look had begun before the end"
    assert pod.look(1, waiting=1, last=True)["enough"]
    assert (pod.row.state, pod.row.reason) == (Harvest.DONE, "torn")
    told = event_files_of(job_again(job))
    assert told is not None
    assert told.said == "1 TensorBoard event file in /checkpoints: 1 points that the log does not tell."
    assert "not whole" in told.problem
    assert pod.ask("GET").status_code == 401


def test_a_suspended_jobs_volume_is_not_watched(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    pod.tell("runs/a", 0, 9, ["loss", 1, "2", 1.0])
    move(job, Phase.SUSPENDED)
    assert pod.look(1)["enough"]
    assert (pod.row.state, pod.row.next_at) == (Harvest.WAITING, None)
    move(job, Phase.RUNNING)
    assert pod.row.next_at is not None


def test_a_flood_of_points_ends_the_reading(job: Job) -> None:
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    EventReader.objects.update(points=5_000_001)
    assert pod.look(1, 1)["enough"]
    assert (pod.row.state, pod.row.reason) == (Harvest.DONE, "too-many")


# --- the program in the pod -------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_program_reads_on_while_a_job_writes(live_server: Any, tmp_path: Path) -> None:
    world = World.make()
    job = own(world.scientist, world.place, phase=Phase.STARTING)
    move(job, Phase.RUNNING)
    pod = Pod.sent(job)
    volume, token = tmp_path / "volume", tmp_path / "token"
    (volume / "runs").mkdir(parents=True)
    token.write_text(pod.token)
    secret = tmp_path / "events.out.tfevents.secret"
    secret.write_bytes((CASES / "tensorboard.tfevents").read_bytes())
    (volume / "runs/events.out.tfevents.linked").symlink_to(secret)
    (volume / "linked").symlink_to(tmp_path)
    (volume / "runs/notes.tfevents.txt").write_text("no event file, whatever its name says")
    whole = (CASES / "tensorboardx.tfevents").read_bytes()
    growing = volume / "runs/events.out.tfevents.1.host"
    growing.write_bytes(whole[:2500])
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        """Between two looks the job writes; then it ends."""
        looks.append(seconds)
        if len(looks) == 1:
            growing.write_bytes(whole)
            EventFile(volume / "runs/other").write(7, {"train/accuracy": 0.5})
        elif len(looks) == 2:
            move(Job.objects.for_system().get(pk=job.pk), Phase.SUCCEEDED)

    arguments = [f"--portal={live_server.url}", f"--job={job.pk}", f"--token-file={token}", f"--directory={volume}"]
    assert main([*arguments, "--patience=0"], sleep) == 0
    assert looks == [10.0, 10.0, 5.0], "two looks that brought something, one that did not, and the last after a moment"
    assert pod.row.state is Harvest.DONE
    assert set(pod.row.files) == {
        "runs/events.out.tfevents.1.host",
        *(f for f in pod.row.files if f.startswith("runs/other/")),
    }
    found = points(job)
    assert len(found) == 62 == pod.row.points
    assert ("train/accuracy", 1, 7, 0.5) in found
    assert main([*arguments, "--patience=0"], sleep) == 1, "its token ended with its work"


# --- in the cluster ---------------------------------------------------------------------------------------------------


@pytest.fixture
def outside_calls() -> Any:
    """A test's own transaction is not one the code under test has opened."""
    from django.db import connection

    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


class Cluster:
    """The cluster's side of one reading."""

    def __init__(self, job: Job) -> None:
        self.api, self.namespace = connect(job.placement.cluster), job.placement.namespace
        self.job_id, name = job.pk, sidepods.reader_name(job.pk)
        self.pod, self.secret = (objects.path(kind, self.namespace, name) for kind in (objects.POD, objects.SECRET))

    def claim(self, name: str, mode: str = "ReadWriteMany") -> None:
        body = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }  # fmt: skip
        self.api.apply(objects.object_path(body), body)

    def there(self) -> list[str]:
        label = f"{manifests.EVENTS_LABEL}={self.job_id}"
        found = [
            (kind.name, item)
            for kind in (objects.POD, objects.SECRET)
            for item in self.api.list(objects.path(kind, self.namespace), label_selector=label)
        ]
        return [name for name, item in found if not item["metadata"].get("deletionTimestamp")]


def step(job: Job) -> EventReader:
    """One look, as the task takes it."""
    clusters.look(background.reader_rows(job.pk), reconcile_events)
    row = EventReader.objects.get(pk=job.pk)
    assert row.lease_until is None
    return row


@pytest.fixture
def running(outside_calls: None, connected: World) -> Job:
    job = own(connected.scientist, connected.place, phase=Phase.STARTING)
    job = Job.objects.for_system().select_related("placement__cluster").get(pk=job.pk)
    move(job, Phase.RUNNING)
    EventReader.objects.update(next_at=timezone.now(), due_at=timezone.now())
    return job


def test_the_pod_reads_only_has_no_account_and_its_token_is_in_a_file(running: Job) -> None:
    cluster = Cluster(running)
    cluster.claim(manifests.object_name(running.pk))
    assert step(running).state is Harvest.READING
    assert cluster.there() == ["Pod", "Secret"]
    pod = cluster.api.get(cluster.pod)
    token = base64.b64decode(cluster.api.get(cluster.secret)["data"]["token"]).decode()
    assert token not in json.dumps(pod)
    claims = [v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"claimName": manifests.object_name(running.pk), "readOnly": True}]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert running.placement.accelerator not in json.dumps(pod["spec"]["containers"])
    assert manifests.JOB_LABEL not in pod["metadata"]["labels"], "it is no rank"
    asking = Pod(running)
    asking.token = token
    assert asking.look(0)["enough"]
    assert step(running).state is Harvest.WAITING
    assert cluster.there() == []
    row = step(running)
    assert row.due_at is not None
    assert row.due_at > timezone.now() + timedelta(minutes=3)
    assert cluster.there() == []


def test_a_volume_of_one_node_is_read_at_the_end(running: Job) -> None:
    cluster = Cluster(running)
    cluster.claim(manifests.object_name(running.pk), "ReadWriteOnce")
    row = step(running)
    assert (row.state, row.reason) == (Harvest.WAITING, "events.one-at-a-time")
    assert "one node at a time" in event_files_of(job_again(running)).problem  # type: ignore[union-attr]
    move(running, Phase.SUCCEEDED)
    assert step(running).state is Harvest.READING


def test_a_pod_that_ends_without_a_word_is_sent_again_and_not_for_ever(running: Job) -> None:
    cluster = Cluster(running)
    cluster.claim(manifests.object_name(running.pk))
    for broken in (1, 2, 3, 4):
        EventReader.objects.update(next_at=timezone.now())
        assert step(running).state is Harvest.READING
        state = {"terminated": {"exitCode": 137, "finishedAt": "2026-11-30T00:00:00Z"}}
        status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
        cluster.api.merge_patch(f"{cluster.pod}/status", {"status": status})
        row = step(running)
        assert row.broken == broken
        assert "137" in event_files_of(job_again(running)).problem  # type: ignore[union-attr]
        step(running)
        assert cluster.there() == []
    assert row.state is Harvest.FAILED
    assert "Tried four times" in event_files_of(job_again(running)).problem  # type: ignore[union-attr]
    assert step(running).due_at is None


def test_what_is_gone_and_what_is_away_are_told_apart(running: Job) -> None:
    cluster, server = running.placement.cluster, running.placement.cluster.server
    cluster.server = "http://127.0.0.1:1"
    cluster.save()
    row = step(running)
    assert (row.state, row.failures) == (Harvest.WAITING, 1)
    assert row.reason.startswith("events.waits-")
    cluster.server = server
    cluster.save()
    row = step(running)
    assert (row.state, row.reason) == (Harvest.FAILED, "events.no-volume")


def test_a_tenant_that_leaves_is_not_waited_for(running: Job) -> None:
    """Nor is its cluster asked, which may be gone by then."""
    running.placement.cluster.server = "http://127.0.0.1:1"
    running.placement.cluster.save()
    running.placement.state = running.placement.State.LEAVING
    running.placement.save()
    row = step(running)
    assert (row.state, row.reason, row.failures) == (Harvest.FAILED, "events.leaving", 0)
    assert step(running).due_at is None


def test_something_else_of_that_name_is_left_alone(running: Job) -> None:
    cluster = Cluster(running)
    body: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": sidepods.reader_name(running.pk), "namespace": cluster.namespace},
        "spec": {"containers": [{"name": "main", "image": "maas/shell:1"}]},
    }  # fmt: skip
    cluster.api.apply(cluster.pod, body)
    row = step(running)
    assert (row.state, row.reason) == (Harvest.FAILED, "events.name-taken")
    assert cluster.api.get(cluster.pod)["spec"]["containers"][0]["image"] == "maas/shell:1"


# --- pages and REST ---------------------------------------------------------------------------------------------------


def test_the_page_and_rest_say_how_it_stands(world: World, job: Job) -> None:
    move(job, Phase.RUNNING)
    client, rest = browser(world.scientist), f"/api/v1/jobs/{job.pk}/events"
    assert client.get(rest).json()["state"] == "waiting"
    assert "are looked for a minute after" in client.get(f"/jobs/{job.pk}/").content.decode()
    pod = Pod.sent(job)
    pod.tell("runs/a", 0, 9, ["loss", 1, "2", 1.0])
    pod.look(1, 1)
    told = client.get(rest).json()
    assert (told["state"], told["files"], told["points"], told["problem"]) == ("reading", 1, 1, "")
    part = client.get(f"/jobs/{job.pk}/?part=events").content.decode()
    assert "1 TensorBoard event file in /checkpoints" in part
    assert "Last looked" in part
    assert browser(world.people[Role.VIEWER]).get(rest).status_code == 200
    assert browser(world.stranger()).get(rest).status_code == 404
