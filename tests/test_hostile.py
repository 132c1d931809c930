"""Addresses and bodies that nobody types by accident are answered in words, and break nothing."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.domain import Role
from apps.clusters.models import Cluster
from tests import factories
from tests.factories import World
from tests.pages import browser

QUERY = (
    "q", "after", "before", "cluster", "tenant", "pool", "accelerator", "state", "resource", "id", "first", "series",
)  # fmt: skip
LISTS = (
    "/", "/jobs/", "/jobs/?part=rows", "/jobs/?part=newer", "/clusters/", "/fleet/", "/fleet/nodes", "/quota/",
    "/fleet/queues/train-a", "/secrets/", "/tenants/", "/deployments/", "/audit/", "/api/v1/jobs", "/api/v1/nodes",
    "/api/v1/clusters/train-a/queues", "/api/v1/secrets", "/api/v1/quota", "/api/v1/audit",
)  # fmt: skip
PATHS = ("/jobs/{}/", "/fleet/nodes/train-a/{}", "/deployments/{}/", "/api/v1/jobs/{}", "/api/v1/deployments/{}")


@pytest.mark.parametrize("value", ["%00", "a%%0000b"])
def test_a_nul_in_an_address_is_read_as_nothing(world: World, value: str) -> None:
    Cluster.objects.filter(slug="train-a").update(state=Cluster.State.READY)
    job = factories.job(world.scientist, world.place)
    client = browser(world.people[Role.OPERATOR])
    query = "&".join(f"{name}={value}" for name in QUERY)
    for path in (*LISTS, f"/api/v1/jobs/{job.pk}/points", f"/api/v1/jobs/{job.pk}/points.csv"):
        answer = client.get(f"{path}{'&' if '?' in path else '?'}{query}")
        assert answer.status_code in (200, 403), path  # an operator has no secrets
        if answer.streaming:
            list(answer.streaming_content)
    for path in PATHS:
        assert client.get(path.format("%00")).status_code == 404, path


@pytest.mark.parametrize(("language", "said"), [("en", "could not read this request"), ("zh-hans", 'lang="zh')])
def test_more_than_a_form_takes_is_said_on_a_page(world: World, language: str, said: str) -> None:
    client = browser(world.people[Role.OPERATOR], **{"Accept-Language": language})
    answer = client.post("/log-readers/try", {"lines": "x" * (3 << 20)})
    assert answer.status_code == 400
    assert said in answer.content.decode()


def test_a_limit_of_thousands_of_digits_is_none(world: World) -> None:
    client: Any = browser(world.scientist)
    assert client.get(f"/api/v1/jobs?limit={'9' * 5000}").status_code == 200
    draft = factories.draft(world.scientist, world.nlp)
    for chosen in ("9" * 5000, "999", "-1", "abc"):
        assert client.get(f"/drafts/{draft.pk}/review?object={chosen}").status_code == 200


def test_half_a_character_is_refused_by_field(world: World) -> None:
    job = factories.job(world.scientist, world.place)
    client = browser(world.scientist)
    document = r'{"template": "command", "name": "x", "image": "x", "command": "x", "ranks": "\ud800", "a\ud800": 1}'
    for send, path, body, fields in (
        (client.post, "/api/v1/jobs", f'{{"tenant": "nlp", "document": {document}}}', {"ranks", "a?"}),
        (client.patch, f"/api/v1/jobs/{job.pk}/watch", r'{"watch": "\ud800"}', {"watch"}),
        (client.put, "/api/v1/secrets/nlp/x", r'{"kind": "\ud800", "values": {"a": "b"}}', {"kind"}),
    ):
        answer = send(path, body, content_type="application/json")
        assert answer.status_code == 400
        assert set(answer.json()["errors"]) == fields


@pytest.mark.parametrize(
    ("path", "typed", "field"),
    [
        ("/fleet/accelerators/new", {"name": "kept", "link_rate": "1e400"}, "id_link_rate"),
        ("/log-readers/new", {"name": "kept", "pattern": "(((("}, "id_pattern"),
    ],
)
def test_a_form_that_was_refused_leads_to_the_field_and_keeps_the_rest(
    world: World, path: str, typed: dict[str, str], field: str
) -> None:
    answer = browser(world.people[Role.OPERATOR]).post(path, typed)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert f'href="#{field}"' in page
    assert 'value="kept"' in page
