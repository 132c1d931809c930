"""The pages of quota: the whole way by hand, bad input that stays typed, and who came second."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.quotas import services
from apps.quotas.domain.states import State
from apps.quotas.models import Allowance, QuotaRequest
from tests import factories
from tests.factories import World
from tests.pages import browser


def typed(world: World, **changes: str) -> dict[str, str]:
    allowance = Allowance.objects.for_system().get(tenant=world.nlp)
    now = timezone.localtime()
    first = {
        f"amount_{allowance.pk}": "8", "tenant": "nlp", "reason": "演示在周五", "key": "k",
        "starts_at": f"{now:%Y-%m-%dT%H:%M}", "ends_at": f"{now + timedelta(days=7):%Y-%m-%dT%H:%M}",
    }  # fmt: skip
    return {**first, **{key.replace("amount", f"amount_{allowance.pk}"): value for key, value in changes.items()}}


def asked(world: World) -> QuotaRequest:
    browser(world.scientist).post("/quota/ask", typed(world))
    return QuotaRequest.objects.for_system().get()


def page(client: Client, request: QuotaRequest) -> str:
    return client.get(reverse("quotas:request", args=[request.pk])).content.decode()


def test_the_whole_way_by_hand(world: World) -> None:
    world.nlp.name = "自然语言组"
    world.nlp.save()
    request = asked(world)
    admin, operator = browser(world.people[Role.TEAM_ADMIN]), browser(world.people[Role.OPERATOR])
    assert "waiting for <b>you</b>" in page(admin, request)
    assert "自然语言组 asks for +8" in page(admin, request)
    assert "act-approve" not in page(operator, request)
    admin.post(reverse("quotas:approve", args=[request.pk]), {"seen": "team"})
    seen = page(operator, request)
    assert '<span class="large">16</span> → <span class="large">24</span>' in seen
    assert "0 → <b>8</b> of 24" in seen
    operator.post(reverse("quotas:approve", args=[request.pk]), {"seen": "platform"})
    assert services.use(world.nlp.pk, services.Pool("train-a", "nvidia.com/gpu")).limit == 24
    assert "is given back by itself" in page(browser(world.scientist), request)
    assert "<b>0</b> of 24" in browser(world.scientist).get("/quota/").content.decode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"amount": "eight"}, "“eight” is no quantity"),
        ({"amount": "1.5"}, "“1.5” is not a whole number"),
        ({"amount": "-8"}, "-8 is out of range"),
        ({"amount": "1e400"}, "is out of range"),
        ({"amount": ""}, "Ask for at least one"),
        ({"reason": ""}, "Say why"),
        ({"ends_at": "someday"}, "“someday” is no time"),
        ({"starts_at": ""}, "Fill this in"),
        ({"ends_at": "2020-01-01T00:00"}, "This time is over"),
    ],
)
def test_what_is_wrong_is_said_beside_it_and_stays_typed(world: World, changes: dict[str, str], said: str) -> None:
    sent = typed(world, **changes)
    answer = browser(world.scientist).post("/quota/ask", sent)
    html = answer.content.decode()
    assert (answer.status_code, said in html) == (422, True)
    for name, value in sent.items():
        assert value in html, name
    assert not QuotaRequest.objects.for_system().exists()


def test_who_came_second_is_told_who_was_first(world: World) -> None:
    request, other = asked(world), factories.user("另一位", Role.TEAM_ADMIN, world.nlp)
    browser(world.people[Role.TEAM_ADMIN]).post(reverse("quotas:approve", args=[request.pk]), {"seen": "team"})
    answer = browser(other).post(
        reverse("quotas:reject", args=[request.pk]), {"seen": "team", "note": "Not now."}, follow=True
    )
    assert "already decided by Team-Admin" in answer.content.decode()
    request.refresh_from_db()
    assert request.standing is State.PLATFORM


def test_a_rejection_without_a_reason_is_asked_for_one(world: World) -> None:
    request = asked(world)
    admin = browser(world.people[Role.TEAM_ADMIN])
    answer = admin.post(reverse("quotas:reject", args=[request.pk]), {"seen": "team", "note": " "})
    assert (answer.status_code, "Say why" in answer.content.decode()) == (422, True)
    admin.post(reverse("quotas:reject", args=[request.pk]), {"seen": "team", "note": "先用现有的。"})
    assert "先用现有的。" in page(browser(world.scientist), request)


def test_a_comment_by_hand_and_one_that_says_nothing(world: World) -> None:
    request, admin = asked(world), browser(world.people[Role.TEAM_ADMIN])
    address = reverse("quotas:comment", args=[request.pk])
    assert admin.post(address, {"text": " "}).status_code == 422
    long = "长" * 1001
    assert long in admin.post(address, {"text": long}).content.decode()
    admin.post(address, {"text": "<b>周五之前？</b>"})
    assert "&lt;b&gt;周五之前？&lt;/b&gt;" in page(browser(world.scientist), request)


def test_an_offer_by_hand(world: World) -> None:
    request = asked(world)
    admin = browser(world.people[Role.TEAM_ADMIN])
    address = reverse("quotas:offer", args=[request.pk])
    assert 'value="8"' in admin.get(address, headers={"HX-Request": "true"}).content.decode()
    assert admin.post(address, {**typed(world, amount="9"), "seen": "team"}).status_code == 422
    admin.post(address, {**typed(world, amount="4"), "seen": "team", "note": "Half?"})
    scientist = browser(world.scientist)
    assert "act-accept" in page(scientist, request)
    scientist.post(reverse("quotas:accept", args=[request.pk]))
    request.refresh_from_db()
    assert (request.standing, request.items.get().amount) == (State.PLATFORM, 4)


def test_the_list_pages_by_key_and_keeps_its_filters(world: World) -> None:
    pool = services.Pool("train-a", "nvidia.com/gpu")
    terms = services.Terms({pool: 1}, timezone.now(), timezone.now() + timedelta(days=1))
    for number in range(45):
        services.ask(world.actor(Role.SCIENTIST), wish=services.Ask(world.nlp.pk, terms, f"Run {number}"))
    client, seen, address = browser(world.people[Role.VIEWER]), list[int](), "/quota/?state=open"
    while address:
        found: Any = client.get(address).context["page"]
        seen += [row.request.pk for row in found.rows]
        address = f"/quota/?{found.older}" if found.older else ""
        assert not address or "state=open" in address
    assert seen == sorted(QuotaRequest.objects.for_system().values_list("pk", flat=True), reverse=True)


def test_by_rest(world: World) -> None:
    pool = {"cluster": "train-a", "resource": "nvidia.com/gpu", "amount": "8"}
    times = {"starts_at": timezone.now().isoformat(), "ends_at": (timezone.now() + timedelta(days=2)).isoformat()}
    body = {"tenant": "nlp", "amounts": [pool], "reason": "Because.", **times}
    people = {role: browser(world.people[role]) for role in (Role.SCIENTIST, Role.TEAM_ADMIN, Role.OPERATOR)}

    def post(role: Role, path: str, data: dict[str, Any], **headers: str) -> Any:
        return people[role].post(f"/api/v1/{path}", data, content_type="application/json", headers=headers)

    wrong = post(Role.SCIENTIST, "quota-requests", {**body, "amounts": [{**pool, "amount": "8GB"}]})
    assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["amounts"])
    made = post(Role.SCIENTIST, "quota-requests", body, **{"Idempotency-Key": "a"}).json()
    assert post(Role.SCIENTIST, "quota-requests", body, **{"Idempotency-Key": "a"}).json()["id"] == made["id"]
    assert post(Role.TEAM_ADMIN, f"quota-requests/{made['id']}/approve", {"seen": "team"}).json()["state"] == "platform"
    late = post(Role.TEAM_ADMIN, f"quota-requests/{made['id']}/approve", {"seen": "team"})
    assert (late.status_code, "already decided" in late.json()["detail"]) == (409, True)
    assert post(Role.OPERATOR, f"quota-requests/{made['id']}/approve", {}).json()["state"] == "active"
    pools = people[Role.SCIENTIST].get("/api/v1/quota").json()
    assert [(one["tenant"], one["limit"], one["left"]) for one in pools] == [("nlp", 24, 24)]
    history = people[Role.SCIENTIST].get(f"/api/v1/quota-requests/{made['id']}").json()["history"]
    assert [event["kind"] for event in history] == ["asked", "team-approved", "approved", "began"]
