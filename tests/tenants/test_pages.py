"""What pages and REST say of tenants, and the walk from asking to a place."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from apps.accounts.domain import Role
from apps.accounts.models import Membership, Tenant
from apps.quotas.models import Allowance
from apps.tenants.checks import reach_is_readable
from apps.tenants.models import Placement, TenantRequest
from tests.factories import World
from tests.pages import browser

ASK = {"slug": "speech", "name": "语音识别", "cluster": "train-a", "gpus": "8", "reason": "ASR 训练"}


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_from_asking_to_a_place_by_pages(world: World) -> None:
    team_admin, operator = browser(world.people[Role.TEAM_ADMIN]), browser(world.people[Role.OPERATOR])
    asked = team_admin.post("/tenant-requests/new", ASK, follow=True)
    request = TenantRequest.objects.for_system().get()
    assert asked.redirect_chain == [(f"/tenant-requests/{request.pk}/", 302)]
    assert "Approve tenant" not in text(asked)
    assert "语音识别" in text(operator.get("/tenants/"))
    page = text(operator.get(f"/tenant-requests/{request.pk}/"))
    assert "Approve tenant" in page
    assert "ASR 训练" in page
    refused = operator.post(f"/tenant-requests/{request.pk}/decide", {"decision": "reject", "note": ""})
    assert refused.status_code == 422
    assert "Say why" in text(refused)
    for _ in range(2):
        done = operator.post(
            f"/tenant-requests/{request.pk}/decide", {"decision": "approve", "gpus": "6", "note": "ok"}
        )
        assert done.status_code == 302
    assert Allowance.objects.for_system().get(tenant__slug="speech").base == 6
    page = text(operator.get("/tenants/speech/"))
    assert "Being prepared" in page
    assert 'href="/tenants/speech/"' in text(operator.get(f"/tenant-requests/{request.pk}/"))
    assert team_admin.get("/tenants/speech/").status_code == 404
    page = text(team_admin.get(f"/tenant-requests/{request.pk}/"))
    assert "You see it once your identity provider says that you are in it" in page
    assert 'href="/tenants/speech/"' not in page
    Membership.objects.create(
        user=world.people[Role.TEAM_ADMIN], tenant=Tenant.objects.get(slug="speech"), role=Role.TEAM_ADMIN
    )
    assert team_admin.get("/tenants/speech/").status_code == 200
    assert 'href="/tenants/speech/"' in text(team_admin.get(f"/tenant-requests/{request.pk}/"))
    page = text(operator.get("/tenants/speech/"))
    assert "/speech/data-scientists" in page


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"slug": "Speech"}, "Lower-case letters"),
        ({"slug": "speech-"}, "Lower-case letters"),
        ({"slug": "nlp"}, "Choose another short name"),
        ({"cluster": "nowhere"}, "nowhere is not one"),
        ({"gpus": "1.5"}, "Enter a whole number"),
        ({"gpus": "0"}, "greater than or equal to 1"),
    ],
)
def test_what_was_typed_wrong_is_said_and_nothing_typed_is_lost(world: World, wrong: dict[str, str], said: str) -> None:
    answer = browser(world.people[Role.TEAM_ADMIN]).post("/tenant-requests/new", ASK | wrong)
    assert answer.status_code == 422
    assert said in text(answer)
    assert "ASR 训练" in text(answer)
    assert not TenantRequest.objects.for_system().exists()


@override_settings(PODS_URL="https://10.9.8.7", PORTAL_TENANT_EGRESS=["store=10.100.0.0/16"], PORTAL_TENANT_INGRESS=[])
def test_the_page_says_what_pods_may_reach(world: World) -> None:
    page = text(browser(world.scientist).get("/tenants/nlp/"))
    for words in ("portal: 10.9.8.7/32, TCP port 443", "store: 10.100.0.0/16, every port", "name resolution"):
        assert words in page


@override_settings(PORTAL_TENANT_EGRESS=["store=somewhere.example"])
def test_an_address_that_cannot_be_read_stops_the_start() -> None:
    (error,) = reach_is_readable()
    assert "somewhere.example" in str(error)


def test_from_asking_to_a_place_by_rest(world: World) -> None:
    team_admin, operator = browser(world.people[Role.TEAM_ADMIN]), browser(world.people[Role.OPERATOR])
    body = {**ASK, "gpus": 8}
    made = team_admin.post("/api/v1/tenant-requests", body, content_type="application/json")
    assert (made.status_code, made.json()["state"]) == (201, "open")
    twice = team_admin.post("/api/v1/tenant-requests", body, content_type="application/json")
    assert (twice.status_code, list(twice.json()["errors"])) == (400, ["slug"])
    address = f"/api/v1/tenant-requests/{made.json()['id']}"
    without_note = operator.post(f"{address}/decide", {"decision": "reject"}, content_type="application/json")
    assert without_note.status_code == 400
    done = operator.post(f"{address}/decide", {"decision": "approve", "gpus": 6}, content_type="application/json")
    assert (done.json()["state"], done.json()["granted"]) == ("approved", 6)
    (place,) = operator.get("/api/v1/tenants/speech").json()
    assert (place["name"], place["namespace"], place["state"]) == ("语音识别", "tenant-speech", "asked")
    wrong = operator.post(
        "/api/v1/tenants/speech/train-a/remove", {"name": "语音识别"}, content_type="application/json"
    )
    assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["name"])
    gone = operator.post("/api/v1/tenants/speech/train-a/remove", {"name": "speech"}, content_type="application/json")
    assert (gone.status_code, gone.json()["state"]) == (202, "leaving")
    again = operator.post("/api/v1/tenants/speech/train-a/remove", {"name": "speech"}, content_type="application/json")
    assert again.status_code == 409


@pytest.mark.parametrize("path", ["/tenants/", "/api/v1/tenants"])
def test_two_hundred_tenants_in_pages(world: World, path: str, django_assert_max_num_queries: Any) -> None:
    rows = Tenant.objects.bulk_create(Tenant(slug=f"t{n}", name=f"Team {n}") for n in range(200))
    Placement.objects.bulk_create(
        Placement(tenant=tenant, cluster=world.place.cluster, namespace=f"tenant-{tenant.slug}", queue=tenant.slug)
        for tenant in rows
    )
    client = browser(world.people[Role.OPERATOR])
    client.get(path)
    with django_assert_max_num_queries(12):
        first = client.get(path)
    assert "tenant-t199" in text(first)
    assert "tenant-t100" not in text(first)
