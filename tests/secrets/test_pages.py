"""Pages and REST of secrets, and the wizard: values go in and none comes out, whatever goes wrong."""

from __future__ import annotations

import html
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import reverse

from apps.accounts.domain import Role
from apps.accounts.services import Listing, create_token
from apps.jobs.domain.pasted import REMOVED
from apps.jobs.models import Draft, Job
from apps.secrets import services, views
from apps.secrets.models import Secret
from tests import factories
from tests.adapters.test_vault import Bao
from tests.canaries import Canaries, database_dump, redis_dump
from tests.factories import World
from tests.pages import browser
from tests.secrets.test_entering import enter, stored


def text(response: Any) -> str:
    return str(response.content.decode())


def typed(value: str, **more: str) -> dict[str, str]:
    form = {"once": str(uuid.uuid4()), "tenant": "nlp", "name": "hf-token", "kind": "token", "note": "the hub's"}
    return {**form, "key_1": "token", "value_1": value, **more}


def test_a_secret_is_entered_listed_replaced_and_removed(world: World, vault: Bao, canaries: Canaries) -> None:
    client = browser(world.scientist)
    answers = [client.post(reverse("secrets:enter"), typed(canaries.plant("first")))]
    assert answers[0].status_code == 302
    secret = Secret.objects.for_system().get()
    job = factories.job(world.scientist, world.place, document={"secrets": ["hf-token"], "name": "uses it"})
    answers += [client.get(reverse("secrets:list")), client.get(reverse("secrets:replace", args=[secret.pk]))]
    page = text(answers[1])
    assert all(
        word in page for word in ("hf-token", "the hub&#x27;s", "uses it", reverse("jobs:detail", args=[job.pk]))
    )
    second = typed(canaries.plant("second"), version="1")
    answers.append(client.post(reverse("secrets:replace", args=[secret.pk]), second))
    assert stored(vault, secret) == {"token": canaries.planted["second"]}
    question = reverse("secrets:remove", args=[secret.pk])
    answers += [client.get(question), client.post(question, {"name": "hf"})]
    assert answers[-1].status_code == 422
    assert "uses it" in text(answers[-2])
    answers.append(client.post(question, {"name": "hf-token"}))
    assert not services.exists(world.nlp.pk, "hf-token")
    answers.append(client.get(reverse("secrets:list")))
    canaries.expect_none(
        database=database_dump(), redis=redis_dump(settings.REDIS_URL),
        answers=b"".join(answer.content + str(answer.headers).encode() for answer in answers),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [({"name": "Hf Token"}, 422, "lower-case letters"), ({"name": "令牌"}, 422, "lower-case letters"),
     ({"key_1": "../x"}, 422, "file name"), ({"key_2": "token", "value_2": "y"}, 422, "stands here twice"),
     ({"kind": "odd"}, 422, "valid choice"), ({"tenant": "vision"}, 422, "valid choice"), ({"key_1": ""}, 422, "file name")],
)  # fmt: skip
def test_a_form_that_cannot_be_taken_says_why_and_shows_no_value(
    world: World, vault: Bao, canaries: Canaries, change: dict[str, str], status: int, said: str
) -> None:
    answer = browser(world.scientist).post(reverse("secrets:enter"), typed(canaries.plant("value"), **change))
    assert answer.status_code == status
    assert said in html.unescape(text(answer))
    canaries.expect_none(answer=answer.content, database=database_dump())


def test_while_the_store_is_sealed_the_page_says_so_and_keeps_nothing(
    world: World, vault: Bao, canaries: Canaries, caplog: pytest.LogCaptureFixture
) -> None:
    client, form = browser(world.scientist), typed(canaries.plant("value"))
    with vault.sealed():
        answer = client.post(reverse("secrets:enter"), form)
    assert answer.status_code == 503
    assert "nothing was kept" in text(answer)
    assert "the hub&#x27;s" in text(answer)  # what is no value is still there
    once = text(answer).split('name="once" value="')[1].split('"')[0]
    assert once != form["once"]
    canaries.expect_none(answer=answer.content, database=database_dump(), log=caplog.text or "none")
    assert client.post(reverse("secrets:enter"), {**form, "once": once}).status_code == 302


def test_a_double_click_is_one_secret(world: World, vault: Bao) -> None:
    client, form = browser(world.scientist), typed("x")
    assert [client.post(reverse("secrets:enter"), form).status_code for _ in range(2)] == [302, 302]
    assert Secret.objects.for_system().get().version == 1
    assert client.post(reverse("secrets:enter"), typed("y")).status_code == 409


@override_settings(DEBUG=True)
def test_the_page_of_a_programming_error_shows_no_value(
    world: World, vault: Bao, canaries: Canaries, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MAAS_DEBUG shows every frame's variables and what was posted."""

    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake of ours")

    value = canaries.plant("value")
    monkeypatch.setattr("apps.secrets.services.entering.audit.record", breaks)
    client = browser(world.scientist)
    client.raise_request_exception = False
    answer = client.post(reverse("secrets:enter"), typed(value))
    assert answer.status_code == 500
    assert "a mistake of ours" in text(answer)
    canaries.expect_none(answer=answer.content, log=caplog.text)
    rest = Client(headers={"Authorization": f"Bearer {_token(world)}"}, raise_request_exception=False)
    body = {"values": {"token": value}}
    answer = rest.put("/api/v1/secrets/nlp/other", body, content_type="application/json")
    assert answer.status_code == 500
    canaries.expect_none(answer=answer.content, log=caplog.text)


def _token(world: World, *, read_only: bool = False) -> str:
    return create_token(world.scientist.actor(), name="t", days=1, read_only=read_only)


def test_by_rest_values_go_in_and_names_come_out(world: World, vault: Bao, canaries: Canaries) -> None:
    client = Client(headers={"Authorization": f"Bearer {_token(world)}"})
    address = "/api/v1/secrets/nlp/hf-token"
    body = {"kind": "token", "note": "hub", "values": {"token": canaries.plant("first")}}
    put = client.put(address, body, content_type="application/json")
    assert (put.status_code, put.json()["version"], put.json()["keys"]) == (201, 1, ["token"])
    again = client.put(address, {"values": {"key": canaries.plant("second")}}, content_type="application/json")
    assert (again.status_code, again.json()["version"], again.json()["keys"]) == (200, 2, ["key"])
    seen = [client.get(address), client.get("/api/v1/secrets"), client.get("/api/v1/secrets?tenant=vision")]
    assert [len(answer.json().get("results", [1])) for answer in seen] == [1, 1, 0]
    wrong = client.put(address, {"values": {"../x": canaries.plant("third")}}, content_type="application/json")
    assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["keys"])
    with vault.sealed():
        away = client.put(address, {"values": {"key": canaries.plant("fourth")}}, content_type="application/json")
    assert (away.status_code, "Retry-After" in away) == (503, True)
    gone = client.delete(address)
    assert (gone.status_code, client.get(address).status_code) == (204, 404)
    answers = [put, again, wrong, away, gone, *seen]
    canaries.expect_none(answers=b"".join(answer.content for answer in answers), database=database_dump())


def test_a_token_that_may_only_read_enters_nothing(world: World, vault: Bao) -> None:
    client = Client(headers={"Authorization": f"Bearer {_token(world, read_only=True)}"})
    answer = client.put("/api/v1/secrets/nlp/a", {"values": {"k": "v"}}, content_type="application/json")
    assert answer.status_code == 403


def test_the_list_pages_by_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "LISTING", Listing(size=2))
    me = world.scientist
    for number in range(5):
        Secret.objects.create(tenant=world.nlp, name=f"s{number}", keys=["k"], version=1, created_by=me, changed_by=me)
    client, address, seen = browser(me), "/secrets/?tenant=nlp", []
    while True:
        page = client.get(address).context["page"]
        seen.append([row.secret.name for row in page.rows])
        if not page.older:
            break
        address = f"/secrets/?{page.older}"
    assert seen == [["s4", "s3"], ["s2", "s1"], ["s0"]]
    assert [row.secret.name for row in client.get(f"/secrets/?{page.newer}").context["page"].rows] == ["s2", "s1"]


# --- the wizard and the documents of jobs -----------------------------------------------------------------------------


def test_the_wizard_ticks_secrets_of_the_tenant(world: World, vault: Bao) -> None:
    enter(world, "hf-token")
    enter(world, "git")
    draft = factories.draft(world.scientist, world.nlp)
    client, address = browser(world.scientist), reverse("jobs:draft-data", args=[draft.pk])
    assert all(f'value="{name}"' in text(client.get(address)) for name in ("hf-token", "git"))
    form = {"version": "1", "go": "next", "name": "n", "secrets": ["", "git", "hf-token"]}
    assert client.post(address, form).status_code == 302
    job = client.post(reverse("jobs:draft-submit", args=[draft.pk]))
    assert job.status_code == 302
    assert Job.objects.for_system().get().document["secrets"] == ["git", "hf-token"]


def test_a_secret_that_is_gone_is_told_beside_its_field_and_can_be_unticked(world: World, vault: Bao) -> None:
    draft = factories.draft(world.scientist, world.nlp, secrets="git")
    client, address = browser(world.scientist), reverse("jobs:draft-data", args=[draft.pk])
    answer = client.post(address, {"version": "1", "go": "next", "name": "n", "secrets": ["", "git"]})
    assert answer.status_code == 422
    assert "The tenant has no secret “git”" in text(answer)
    assert client.post(address, {"version": "2", "go": "next", "name": "n", "secrets": ""}).status_code == 302


def test_a_pasted_secret_is_not_even_kept_in_a_draft(
    world: World, canaries: Canaries, caplog: pytest.LogCaptureFixture
) -> None:
    draft = factories.draft(world.scientist, world.nlp)
    client, address = browser(world.scientist), reverse("jobs:draft-data", args=[draft.pk])
    value = canaries.plant("hub token", "hf_")
    saved = client.post(address, {"version": "1", "go": "save", "name": "n", "note": f"use {value} for it"})
    assert saved.status_code == 200
    assert Draft.objects.for_system().get().document["note"] == f"use {REMOVED} for it"
    answer = client.post(address, {"version": "2", "go": "next", "name": "n", "note": f"use {value} for it"})
    assert answer.status_code == 422
    assert "Enter it under Secrets" in text(answer)
    canaries.expect_none(database=database_dump(), answer=answer.content, log=caplog.text or "none")


def test_a_document_with_a_pasted_secret_is_refused_by_rest(world: World, canaries: Canaries) -> None:
    client = Client(headers={"Authorization": f"Bearer {_token(world)}"})
    document = {**factories.DOCUMENT, "template": "command", "image": "x", "steps": 1}
    document |= {"command": ["sh", "-c", f"login --token {canaries.plant('token', 'ghp_')}"], "environment": {}}
    del document["steps"]
    body = {"tenant": "nlp", "document": document}
    answer = client.post("/api/v1/jobs", body, content_type="application/json", headers={"Idempotency-Key": "k"})
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["command"])
    assert "Secrets" in str(answer.json()["errors"])
    canaries.expect_none(answer=answer.content, database=database_dump())


def test_who_may_not_see_secrets_is_not_shown_the_way(world: World) -> None:
    assert reverse("secrets:list") not in text(browser(world.people[Role.VIEWER]).get("/jobs/"))
    assert reverse("secrets:list") in text(browser(world.scientist).get("/jobs/"))
