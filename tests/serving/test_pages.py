"""Pages and REST of deployments: what they say, that strangers see none of it, and what they cost."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import Membership
from apps.catalog.models import ModelVersion, RegisteredModel
from apps.clusters.models import ClusterNode
from apps.serving import services
from apps.serving.domain.phases import Phase
from apps.serving.models import Deployment, DeploymentKey, Replica
from tests.factories import World
from tests.pages import browser
from tests.serving import made


def test_the_form_shows_the_arithmetic_and_offers_the_smallest_shape(world: World, version: ModelVersion) -> None:
    ClusterNode.objects.create(
        cluster=world.place.cluster, name="n1", product="NVIDIA-A800-SXM4-80GB", resource="nvidia.com/gpu", total=8, ready=True
    )  # fmt: skip
    page = browser(world.scientist).get(f"/deployments/new?version={version.pk}")
    text = page.content.decode()
    assert "22,000 parameters × 8 bytes" in text
    assert "80.0 GiB" in text
    chosen = page.context["chosen"]
    assert (chosen.shape.key, page.context["sum"]) == ("1-small", {"gpus": 1, "after": 15})
    part = browser(world.scientist).get(f"/deployments/new?part=panel&version={version.pk}&replicas=20&shape=1-small")
    assert "This takes 20 GPUs; 16 of 16 are left." in part.content.decode()


def test_the_form_follows_the_tenant_that_is_chosen(world: World, version: ModelVersion) -> None:
    Membership.objects.create(user=world.scientist, tenant=world.vision, role=Role.SCIENTIST)
    RegisteredModel.objects.for_system().update(visibility="public")
    client, form = browser(world.scientist), {"version": version.pk, "shape": "1-small"}
    page = client.get("/deployments/new", form).content.decode()
    part = client.get("/deployments/new", {**form, "part": "panel", "tenant": "vision"}).content.decode()
    assert "Deploy to NLP" in page
    assert "hx-swap-oob" not in page
    assert "Deploy to 视觉" in part
    assert re.findall(r'id="(\w+)" hx-swap-oob="true"', part) == ["shapes", "go"]


def test_what_was_typed_comes_back_with_what_is_wrong(world: World, version: ModelVersion) -> None:
    form = {"version": version.pk, "tenant": "nlp", "name": "a/b", "shape": "1-small", "replicas": "1.5", "key": "k"}
    page = browser(world.scientist).post("/deployments/new", form)
    text = page.content.decode()
    assert page.status_code == 422
    assert 'value="a/b"' in text
    assert "“1.5” is not a whole number." in text
    assert not Deployment.objects.for_system().exists()
    mended = {**form, "name": "港口", "replicas": "2"}
    first = browser(world.scientist).post("/deployments/new", mended)
    again = browser(world.scientist).post("/deployments/new", mended)
    assert first["Location"] == again["Location"]
    assert Deployment.objects.for_system().get().replicas == 2


def test_a_key_is_shown_once(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version)
    client = browser(world.scientist)
    shown = client.post(f"/deployments/{deployment.pk}/keys", {"name": "ci", "rate": "60"})
    key = shown.context["clear_key"]
    assert key in shown.content.decode()
    assert "no-store" in shown["Cache-Control"]
    for path in (
        f"/deployments/{deployment.pk}/?tab=keys",
        "/deployments/",
        f"/api/v1/deployments/{deployment.pk}/keys",
    ):
        assert key not in client.get(path).content.decode()


def test_a_strangers_address_is_not_there(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version)
    stranger = browser(world.stranger())
    assert deployment.name not in stranger.get("/deployments/").content.decode()
    assert stranger.get(f"/deployments/{deployment.pk}/?part=state").status_code == 404
    assert stranger.get(f"/deployments/?part=rows&id={deployment.pk}").content.decode().strip() == ""


def test_by_rest_the_same_request_twice_is_one_deployment(world: World, version: ModelVersion) -> None:
    client = browser(world.scientist)
    asked = {"tenant": "nlp", "version": version.pk, "name": "chat", "shape": "1-small", "replicas": 2}

    def send(**changes: Any) -> Any:
        headers = {"Idempotency-Key": "once"}
        return client.post(
            "/api/v1/deployments", {**asked, **changes}, content_type="application/json", headers=headers
        )

    first, again, other = send(), send(), send(name="another")
    assert (first.status_code, again.json()["id"], other.status_code) == (202, first.json()["id"], 409)
    url = first.json()["url"]
    assert url.startswith("http://models.test/nlp/chat-")
    assert url.endswith("/v1")
    more = client.post(
        f"/api/v1/deployments/{first.json()['id']}/scale", {"replicas": 17}, content_type="application/json"
    )
    assert more.status_code == 400
    assert "leaves 14 of 16" in more.content.decode()


def test_the_list_costs_the_same_with_many(
    world: World, version: ModelVersion, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        made.deployment(world.scientist, version, name=f"n{number}")
    client = browser(world.people[Role.VIEWER])
    with django_assert_max_num_queries(12):
        assert client.get("/deployments/").content.decode().count('id="deployment-') == 12


# --- the playground, through a gateway that says what the test wants ------------------------------------------------


class Gateway(ThreadingHTTPServer):
    """Stands where the gateway does: keeps what it was asked, and answers with `script` (status, lines)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.script: tuple[int, list[str]] = (200, [])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        status, lines = self.server.script
        self.send_response(status)
        self.send_header("Connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(f"{line}\n\n".encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def gateway(settings: Any) -> Iterator[Gateway]:
    with Gateway() as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        settings.GATEWAY_URL = server.url
        yield server
        server.shutdown()


def delta(text: str) -> str:
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]})


USAGE = 'data: {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 7}}'
END = 'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}'


def ask(world: World, deployment: Deployment, body: Any) -> tuple[int, list[dict[str, Any]]]:
    """What the page gets: the status, and the lines."""

    async def run() -> tuple[int, list[dict[str, Any]]]:
        client = AsyncClient()
        client.cookies = cookies
        answer = await client.post(f"/deployments/{deployment.pk}/chat", body, content_type="application/json")
        await sync_to_async(connections.close_all)()  # those of the thread in which its queries ran
        if not answer.streaming:
            return answer.status_code, [json.loads(answer.content)]
        stream: AsyncIterator[bytes] = answer.streaming_content  # type: ignore[assignment]
        return answer.status_code, [json.loads(line) async for line in stream]

    signed_in = browser(world.scientist)
    cookies = signed_in.cookies
    return asyncio.run(run())


@pytest.mark.django_db(transaction=True)
def test_an_answer_streams_with_its_figures(gateway: Gateway) -> None:
    world = World.make()
    deployment = made.deployment(world.scientist, made.version(world.scientist, world.place))
    gateway.script = 200, [delta("Ahoy"), ": a comment", delta(", 港口"), END, USAGE, "data: [DONE]"]
    question = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0.2, "max_tokens": 7}
    status, lines = ask(world, deployment, question)
    assert status == 200
    assert [line["text"] for line in lines if line["t"] == "delta"] == ["Ahoy", ", 港口"]
    assert (lines[-1]["t"], lines[-1]["tokens"], lines[-1]["finish"]) == ("done", 7, "length")
    assert lines[-1]["rate"] > 0
    path, credential, sent = gateway.asked[0]
    assert path == f"/nlp/{deployment.slug}/v1/chat/completions"
    assert (sent["model"], sent["stream"], sent["max_tokens"]) == ("harbour", True, 7)
    assert services.authorize(credential, deployment.pk).code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("script", "text"),
    [
        ((429, ['{"error": {"message": "too many"}}']), "Wait a moment"),
        ((503, ["no healthy upstream"]), "does not answer now"),
        ((400, ['{"error": {"message": "too long a prompt"}}']), "refused the question"),
        ((200, ["data: {not json"]), "does not answer now"),
    ],
)
def test_an_error_is_told_in_words(gateway: Gateway, script: tuple[int, list[str]], text: str) -> None:
    world = World.make()
    deployment = made.deployment(world.scientist, made.version(world.scientist, world.place))
    gateway.script = script
    _status, lines = ask(world, deployment, {"messages": [{"role": "user", "content": "hello"}]})
    assert lines[-1]["t"] == "error"
    assert text in lines[-1]["text"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}], "max_tokens": 10**9},
        {"messages": [{"role": "user", "content": "x" * 70_000}]},
        [],
    ],
)
def test_a_question_no_page_sends_goes_nowhere(gateway: Gateway, body: Any) -> None:
    world = World.make()
    deployment = made.deployment(world.scientist, made.version(world.scientist, world.place))
    status, lines = ask(world, deployment, body)
    assert (status, lines[0]["t"], gateway.asked) == (400, "error", [])


def test_the_page_of_a_ready_one(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version)
    Deployment.objects.for_system().update(phase=Phase.READY, phase_at=timezone.now())
    Replica.objects.create(
        deployment=deployment, pod_uid="u", pod_name=f"d-{deployment.pk.lower()}-x", stage=Phase.READY, ready=True
    )
    DeploymentKey.objects.create(
        tenant=world.nlp, deployment=deployment, name="ci", prefix="md_x", digest="d", requests_per_minute=60,
        created_by=world.scientist,
    )  # fmt: skip
    text = browser(world.scientist).get(f"/deployments/{deployment.pk}/").content.decode()
    assert "data-serves" in text
    assert f"http://models.test/nlp/{deployment.slug}/v1" in text
    assert (
        "data-serves" not in browser(world.people[Role.VIEWER]).get(f"/deployments/{deployment.pk}/").content.decode()
    )
    assert "style=" not in text
    assert "onclick" not in text
