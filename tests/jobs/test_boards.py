"""TensorBoard on demand: who may open and use one, what the cluster is sent, and when it ends."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.conf import settings as settings_of
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Membership, ProviderSession
from apps.adapters.gateway import DEPLOYMENT_HEADER, SECRET_HEADER
from apps.adapters.kubernetes import objects
from apps.audit.models import Entry
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect
from apps.jobs import moves
from apps.jobs.domain import manifests, sidepods
from apps.jobs.domain.boards import IDLE, Stage, why_over
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Board, Job
from apps.jobs.reconcile.board import reconcile_board
from apps.jobs.services import background, boards
from apps.jobs.services.board_words import board_view
from tests import factories
from tests.factories import Role, World
from tests.jobs.test_harvest import own
from tests.pages import browser


@pytest.fixture(autouse=True)
def offered(settings: Any, tmp_path: Any) -> None:
    """An installation with an image and a gateway."""
    settings.TENSORBOARD_IMAGE = "maas/tensorboard:1"
    settings.GATEWAY_URL = "http://models.test"
    settings.GATEWAY_DIR = str(tmp_path)
    settings.GATEWAY_HOSTS = ["models.test"]
    settings.GATEWAY_SECRET = "s"
    settings.ALLOWED_HOSTS = ["*"]


@pytest.fixture
def job(world: World) -> Job:
    return own(world.scientist, world.place, phase=Phase.RUNNING, running_at=timezone.now())


def ready(job: Job, ip: str = "127.9.9.9") -> Board:
    board = Board.objects.create(
        job=job, phase=Stage.READY, ip=ip, used_at=timezone.now(), until=timezone.now() + timedelta(hours=4)
    )
    return Board.objects.select_related("job__tenant").get(pk=board.pk)


class Gateway:
    """What Envoy asks and passes on."""

    def __init__(self, board: Board) -> None:
        self.board, self.client = board, Client(headers={"host": "models.test"})

    def enter(self, address: str) -> Any:
        path, _mark, query = address.removeprefix("http://models.test").partition("?")
        assert path == f"{boards.prefix_of(self.board)}/enter"
        return self.client.get(f"/gateway/enter?{query}")

    def judge(self, path: str = "/", board: Board | None = None) -> int:
        return self.ask(sidepods.board_name((board or self.board).pk), path).status_code

    def ask(self, target: str, path: str = "/", **headers: str) -> Any:
        headers |= {SECRET_HEADER: "s", **({DEPLOYMENT_HEADER: target} if target else {})}
        return self.client.get(f"/gateway/authorize{boards.prefix_of(self.board)}{path}", headers=headers)


def test_it_is_opened_and_ended_by_whoever_controls_the_job(world: World, job: Job) -> None:
    rest = f"/api/v1/jobs/{job.pk}/board"
    client = browser(world.scientist)
    assert client.get(rest).json()["can_open"]
    assert browser(world.people[Role.VIEWER]).post(rest).status_code == 403
    assert browser(world.stranger()).post(rest).status_code == 404
    assert client.post(rest).status_code == client.post(rest).status_code == 202
    assert Board.objects.count() == 1
    assert Entry.objects.filter(action="job.board-opened", result="done").count() == 1
    assert client.delete(rest).status_code == client.delete(rest).status_code == 204
    told = client.get(rest).json()
    assert (told["state"], told["reason"]) == ("ended", f"{world.scientist.name} ended it.")
    assert Entry.objects.filter(action="job.board-ended", result="done").count() == 1
    assert client.post(rest).status_code == 202, "another one may follow"


def told(*words: str) -> str:
    out = StringIO()
    call_command("boards", *words, stdout=out)
    return out.getvalue()


def test_a_command_lists_opens_and_ends_as_the_page_does(world: World, job: Job) -> None:
    me, viewer, stranger = world.scientist.sub, world.people[Role.VIEWER].sub, world.stranger().sub
    assert told("list", "--as", me) == ""
    assert told("open", job.pk, "--as", me) == f"{job.pk} {job.name}: asked\n"
    assert [one["job"] for one in json.loads(told("list", "--as", viewer, "--json"))] == [job.pk]
    assert told("list", "--as", stranger) == ""
    for who, code, said in (
        (viewer, 3, "somebody else"),
        (stranger, 1, "sees no job"),
        ("nobody", 1, "Nobody is known"),
    ):
        with pytest.raises(CommandError, match=said) as refused:
            told("end", job.pk, "--as", who)
        assert refused.value.returncode == code
    assert told("end", job.pk, "--as", me) == f"{job.pk} {job.name}: ended {world.scientist.name} ended it.\n"
    assert told("list", "--as", me) == ""
    waiting = own(world.scientist, world.place, phase=Phase.WAITING)
    for words in (("open", waiting.pk), ("open",), ("list", job.pk)):
        with pytest.raises(CommandError) as wrong:
            told(*words, "--as", me)
        assert wrong.value.returncode == 2


def test_where_none_can_be_opened_the_page_says_why(world: World, job: Job, settings: Any) -> None:
    client = browser(world.scientist)
    waiting = own(world.scientist, world.place, phase=Phase.WAITING)
    assert "board-open" not in client.get(f"/jobs/{waiting.pk}/?part=board").content.decode()
    assert (
        client.post(f"/api/v1/jobs/{waiting.pk}/board").json()["detail"]
        == "TensorBoard can be opened once the job has run."
    )
    settings.TENSORBOARD_IMAGE = ""
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "this installation has no image of it" in page
    assert "board-open" not in page
    answer = client.post(f"/api/v1/jobs/{job.pk}/board")
    assert answer.status_code == 409
    known = factories.job(world.scientist, world.place, phase=Phase.RUNNING, running_at=timezone.now())
    assert (board_view(known).said, board_view(known).can_open) == ("", False)


def test_a_pass_becomes_a_cookie_for_this_one_and_rights_are_asked_each_time(world: World, job: Job) -> None:
    board, viewer = ready(job), world.people[Role.VIEWER]
    other = ready(own(world.scientist, world.place, phase=Phase.SUCCEEDED))
    gateway = Gateway(board)
    assert gateway.judge() == 401
    answer = browser(viewer).get(f"/jobs/{job.pk}/board/enter")
    assert (answer.status_code, answer["Referrer-Policy"]) == (302, "no-referrer")
    entered = gateway.enter(answer["Location"])
    assert (entered.status_code, entered["Location"]) == (302, f"http://models.test{boards.prefix_of(board)}/")
    cookie = entered.cookies[boards.cookie_name(board.pk)]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (f"{boards.prefix_of(board)}/", True, "Lax")
    gateway.client.cookies[boards.cookie_name(other.pk)] = cookie.value
    assert [gateway.judge(), gateway.judge(board=other)] == [200, 401]
    Membership.objects.filter(user=viewer).delete()
    assert gateway.judge() == 404, "who has left the team is let in no more"
    Membership.objects.create(user=viewer, tenant=world.nlp, role=Role.VIEWER)
    assert gateway.judge() == 200
    boards.end_board(world.scientist.actor(), job=job)
    assert gateway.judge() == 404


def entered_by(person: Client, board: Board) -> Gateway:
    gateway = Gateway(board)
    answer = gateway.enter(person.get(f"/jobs/{board.job_id}/board/enter")["Location"])
    assert answer.status_code == 302, answer.content
    gateway.client.cookies[boards.cookie_name(board.pk)] = answer.cookies[boards.cookie_name(board.pk)].value
    return gateway


def test_its_cookie_ends_with_the_session_that_it_is_from(world: World, job: Job) -> None:
    board = ready(job)
    here, elsewhere = browser(world.scientist), browser(world.scientist)
    one, other = entered_by(here, board), entered_by(elsewhere, board)
    late = here.get(f"/jobs/{job.pk}/board/enter")["Location"]
    assert [one.judge(), other.judge()] == [200, 200]
    assert here.post("/sign-out/").status_code == 302
    assert [one.judge(), other.judge()] == [401, 200], "the person's other session is open"
    answer = Gateway(board).enter(late)
    assert answer.status_code == 401, "nor does a pass that was given before"
    assert f'href="{settings_of.BASE_URL}/jobs/{job.pk}/"' in answer.content.decode()
    ProviderSession.objects.update(used_at=timezone.now() - timedelta(days=1))
    assert other.judge() == 401, "it ends unused as it does in the portal"


def test_who_is_not_let_in_is_told_in_their_language_with_a_way_back(world: World, job: Job) -> None:
    board, way = ready(job), f'href="{settings_of.BASE_URL}/jobs/{job.pk}/"'
    target = sidepods.board_name(board.pk)
    stranger, reader = Gateway(board), entered_by(browser(world.scientist, accept_language="zh-CN"), board)
    shown = stranger.ask(target, accept_language="zh-CN")
    assert (shown.status_code, shown["Content-Type"]) == (401, "text/html; charset=utf-8")
    assert 'lang="zh-hans"' in shown.content.decode()
    assert way in shown.content.decode()
    boards.end_board(world.scientist.actor(), job=job)
    for answer in (reader.ask(target), stranger.ask("", accept_language="zh-CN")):  # then without a route
        assert answer.status_code == 404
        assert 'lang="zh-hans"' in answer.content.decode(), "as the portal spoke to them"
        assert way in answer.content.decode()
    assert "This TensorBoard has ended" in stranger.ask("").content.decode()
    assert stranger.ask("board-ours").json()["error"]["code"] == "missing_api_key", "a deployment may have such a name"


def test_who_comes_before_the_gateway_has_its_route_is_asked_to_wait_and_comes_again(world: World, job: Job) -> None:
    """It hears of a route a moment after the portal says that the board is ready."""
    board = ready(job)
    gateway = entered_by(browser(world.scientist), board)
    early = gateway.ask("", "/enter")
    assert (early.status_code, early["Refresh"]) == (404, "1")
    assert "does not lead to this TensorBoard yet" in early.content.decode()
    assert gateway.judge() == 200
    boards.end_board(world.scientist.actor(), job=job)
    assert "Refresh" not in gateway.ask("", "/enter").headers


def test_nobody_else_enters(world: World, job: Job) -> None:
    board = ready(job)
    assert browser(world.stranger()).get(f"/jobs/{job.pk}/board/enter").status_code == 404
    gateway = Gateway(board)
    assert gateway.client.get("/gateway/enter?pass=made-up").status_code == 403
    stolen = boards.address(browser(factories.user("x")).session.session_key or "", board)
    assert gateway.enter(stolen).status_code == 404, "a pass for whom may not see the job"
    assert gateway.enter(boards.address("no session", board)).status_code == 401
    with time_machine.travel(timezone.now() - timedelta(minutes=2)):
        old = boards.address(browser(world.scientist).session.session_key or "", board)
    answer = gateway.enter(old)
    assert (answer.status_code, f"/jobs/{job.pk}/" in answer.content.decode()) == (403, True)
    shown = Client(headers={"host": "models.test"}).get("/gateway/authorize/x", headers={DEPLOYMENT_HEADER: "board-x"})
    assert shown.status_code == 403, "only the gateway asks"


def test_it_ends_when_nobody_uses_it_or_its_time_is_over() -> None:
    now = timezone.now()
    assert why_over(now, now - IDLE, now + IDLE) == "board.idle"
    assert why_over(now, now, now) == "board.limit"
    assert why_over(now, now - IDLE + timedelta(seconds=1), now + IDLE) == ""


# --- in the cluster ---------------------------------------------------------------------------------------------------


@pytest.fixture
def outside_calls() -> Any:
    """A test's own transaction is not one the code under test has opened."""
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


@pytest.fixture
def asked(outside_calls: None, connected: World) -> Board:
    made = own(connected.scientist, connected.place, phase=Phase.STARTING)
    job = Job.objects.for_system().select_related("placement__cluster", "tenant").get(pk=made.pk)
    moves.move(job, Phase.RUNNING, moves.Facts(1))
    board = boards.open_board(connected.scientist.actor(), job=job)
    body = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": manifests.object_name(job.pk), "namespace": job.placement.namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    connect(job.placement.cluster).apply(objects.object_path(body), body)
    return background.board_rows(board.pk).get()


def step(board: Board) -> Board:
    clusters.look(background.board_rows(board.pk), reconcile_board)
    return background.board_rows(board.pk).get()


def pod_of(board: Board) -> str:
    return objects.path(objects.POD, board.job.placement.namespace, sidepods.board_name(board.pk))


def say(board: Board, **status: Any) -> None:
    connect(board.job.placement.cluster).merge_patch(f"{pod_of(board)}/status", {"status": status})


RUNS = {"phase": "Running", "podIP": "127.4.5.6", "conditions": [{"type": "Ready", "status": "True"}]}


def is_there(board: Board) -> bool:
    api = connect(board.job.placement.cluster)
    label = f"{manifests.BOARD_LABEL}={board.pk}"
    found = api.list(objects.path(objects.POD, board.job.placement.namespace), label_selector=label)
    return any(not one["metadata"].get("deletionTimestamp") for one in found)


def test_from_asked_to_ready_and_nothing_stays_behind(asked: Board, settings: Any, tmp_path: Any) -> None:
    board = step(asked)
    assert board.stage is Stage.STARTING
    pod = connect(board.job.placement.cluster).get(pod_of(board))
    claims = [v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"claimName": manifests.object_name(board.job_id), "readOnly": True}]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert board.job.placement.accelerator not in str(pod["spec"]["containers"])
    say(board, **RUNS)
    board = step(board)
    assert (board.stage, board.ip) == (Stage.READY, "127.4.5.6")
    assert boards.prefix_of(board) in (tmp_path / "routes.json").read_text()
    Board.objects.update(used_at=timezone.now() - IDLE)
    board = step(board)
    assert (board.stage, board.reason) == (Stage.ENDED, "board.idle")
    assert Entry.objects.filter(action="job.board-over").count() == 1
    step(board)
    assert boards.prefix_of(board) not in (tmp_path / "routes.json").read_text()
    assert not is_there(board)


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ({"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-30T00:00:00Z"}}}]}, "board.pod-ended", "exit code 1"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none fits"}]}, "board.pod-waits", "Unschedulable"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_come_up_says_why(asked: Board, status: dict[str, Any], reason: str, said: str) -> None:
    board = step(asked)
    say(board, **status)
    board = step(board)
    assert board.reason == reason
    assert said in board_view(board.job).reason
    if board.stage is Stage.STARTING:
        Board.objects.update(created_at=timezone.now() - timedelta(minutes=11))
        board = step(board)
        assert (board.stage, board.reason) == (Stage.FAILED, "board.late")
    step(board)
    assert not is_there(board)


def test_one_that_is_ended_while_it_starts_goes(asked: Board) -> None:
    board = step(asked)
    boards.end_board(board.job.owner.actor(), job=board.job)
    step(board)
    assert not is_there(board)
    assert step(board).due_at is None


def test_a_tenant_that_leaves_takes_it_along(asked: Board) -> None:
    board = step(asked)
    board.job.placement.state = board.job.placement.State.LEAVING
    board.job.placement.save()
    board = step(board)
    assert (board.stage, board.reason) == (Stage.ENDED, "board.leaving")
    assert step(board).due_at is None
