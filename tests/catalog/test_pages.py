"""The marketplace and the model's page: what they find, how much they ask, and that places follow the cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apps.accounts.domain import Role
from apps.audit.models import Entry
from apps.catalog.domain.fit import FreeNode, places
from apps.catalog.models import ModelVersion, RegisteredModel
from apps.clusters.models import ClusterNode
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Job
from deploy.workloads.charlm.text import write
from tests import factories
from tests.catalog import made
from tests.factories import World
from tests.pages import browser

GIB = 1 << 30


@pytest.fixture
def many(world: World) -> World:
    """10,000 models with a version each."""
    me = world.scientist
    models = RegisteredModel.objects.bulk_create(
        RegisteredModel(
            tenant=world.nlp, name=f"model-{n:05}" if n % 2 else f"模型-{n:05}", licence=("MIT", "Apache-2.0")[n % 2],
            created_by=me, card="# 港口\n" * 20, tags=["chat"], versions=1, format="safetensors", weight_bytes=n * 2**20,
        )
        for n in range(10_000)
    )  # fmt: skip
    ModelVersion.objects.bulk_create(
        ModelVersion(model=model, tenant=world.nlp, number=1, author=me) for model in models
    )
    return world


def names(page: Any) -> list[str]:
    return re.findall(r"<h2><a href=\"/models/[^\"]+\">([^<]+)</a>", page.content.decode())


def test_ten_thousand_models_cost_as_many_queries_as_ten(many: World, django_assert_max_num_queries: Any) -> None:
    client = browser(many.scientist)
    client.get("/models/")
    with django_assert_max_num_queries(30):
        page = client.get("/models/")
    assert len(names(page)) == 24
    assert "<b>10,000</b> models" in page.content.decode()
    older = re.search(r'href="(/models/\?[^"]*before=[^"]+)"', page.content.decode())
    assert older
    second = names(client.get(older[1].replace("&amp;", "&")))
    assert len(second) == 24
    assert not set(second) & set(names(page))
    found = names(client.get("/models/?q=模型-0123&licence=MIT"))
    assert found == ["模型-01238", "模型-01236", "模型-01234", "模型-01232", "模型-01230"]


def test_a_search_finds_chinese_in_name_tag_and_card(world: World) -> None:
    made.version(world.scientist, world.place, name="港口助手")
    made.version(world.scientist, world.place, name="tagged", tags=["中文对话"])
    made.version(world.scientist, world.place, name="told", card="用于客服对话。")
    client = browser(world.people[Role.VIEWER])
    assert names(client.get("/models/?q=助手")) == ["港口助手"]
    assert names(client.get("/models/?q=对话")) == ["told", "tagged"]
    assert names(client.get("/models/?stage=approved")) == []


def test_a_version_whose_job_told_no_loss_is_listed(world: World) -> None:
    version = made.version(world.scientist, world.place)
    ModelVersion.objects.filter(pk=version.pk).update(lineage={})
    page = browser(world.scientist).get(f"/models/{version.model_id}/?tab=versions")
    assert page.status_code == 200
    assert ">v1</a>" in page.content.decode()


@pytest.mark.parametrize(
    "odd", ["stage=nonsense", "q=%00", "format=%00&before=%00", "part=fits&id=%00", "after=é", "q=%25_\\"]
)
def test_whatever_stands_in_the_address_is_answered(world: World, odd: str) -> None:
    client = browser(world.scientist)
    assert client.get(f"/models/?{odd}").status_code == 200
    assert client.get(f"/api/v1/models?{odd}").status_code == 200
    assert client.get("/models/%00/").status_code == client.get("/api/v1/models/%00").status_code == 404


def test_rest_filters_as_the_page_does(world: World) -> None:
    made.ready(made.version(world.scientist, world.place, name="one"))
    made.ready(made.version(world.scientist, world.place, name="two", licence="MIT"), format="gguf")
    client = browser(world.scientist)
    assert [one["name"] for one in client.get("/api/v1/models?format=gguf").json()["results"]] == ["two"]
    assert [one["name"] for one in client.get("/api/v1/models?licence=Apache-2.0").json()["results"]] == ["one"]


def test_places_follow_a_cordon(world: World) -> None:
    version = made.ready(made.version(world.scientist, world.place), weight_bytes=20 * GIB)
    node = ClusterNode.objects.create(
        cluster=world.place.cluster,
        name="n1",
        product="A800-80G",
        resource="nvidia.com/gpu",
        total=8,
        used=2,
        ready=True,
    )
    client = browser(world.scientist)
    page = client.get(f"/models/{version.model_id}/").content.decode()
    assert f'data-topic="cluster.{world.place.cluster_id}"' in page
    assert f"changed:cluster.{world.place.cluster_id}" in page
    asked = f"/models/{version.model_id}/?version=1&part=fits"
    assert "6 places" in client.get(asked).content.decode()
    ClusterNode.objects.filter(pk=node.pk).update(schedulable=False)
    assert "none free" in client.get(asked).content.decode()
    card = client.get(f"/models/?part=fits&id={version.model_id}").content.decode()
    assert f'id="fit-{version.model_id}"' in card
    assert "none free now" in card


def test_room_is_counted_by_memory_where_the_product_tells_it() -> None:
    nodes = [FreeNode("a", "A800-80G", 8), FreeNode("a", "L40S-48GB", 4), FreeNode("b", "Ascend910", 3)]
    found = {(one.product, one.each, one.places, one.known) for one in places(100 * GIB, nodes)}
    assert found == {("A800-80G", 2, 4, True), ("L40S-48GB", 4, 1, True), ("Ascend910", 1, 3, False)}
    assert [one.product for one in places(2_000 * GIB, nodes)] == ["Ascend910"], "more than eight of any other"
    assert places(None, nodes) == []


def test_a_stranger_meets_404_everywhere_and_reads_nothing(world: World) -> None:
    version = made.ready(made.version(world.scientist, world.place), {"a.txt": b"secret weights"})
    client = browser(world.stranger())
    base, rest = f"/models/{version.model_id}", f"/api/v1/models/{version.model_id}"
    for address in ("/", "/?part=fits", "/?tab=files", "/edit", "/delete", "/versions/1/files/a.txt"):
        assert client.get(base + address).status_code == 404, address
    for address in ("", "/versions", "/versions/1", "/versions/1/files", "/versions/1/files/a.txt"):
        assert client.get(rest + address).status_code == 404, address
    for address in ("/versions/1/stage", "/versions/1/again", "/edit", "/delete"):
        assert client.post(base + address, {"act": "propose", "name": "harbour"}).status_code == 404, address
    assert names(client.get("/models/")) == []
    assert client.get(f"/models/?part=fits&id={version.model_id}").content.strip() == b""


def test_a_download_is_what_was_stored_and_is_audited(world: World) -> None:
    version = made.ready(made.version(world.scientist, world.place), {"sub/权重.txt": b"<script>weights</script>"})
    answer = browser(world.people[Role.VIEWER]).get(f"/models/{version.model_id}/versions/1/files/sub/权重.txt")
    assert b"".join(answer.streaming_content) == b"<script>weights</script>"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment; filename*=utf-8''")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert Entry.objects.get(action="model.downloaded").params["path"] == "sub/权重.txt"


def test_a_form_that_is_not_right_keeps_what_was_typed(world: World) -> None:
    version = made.version(world.scientist, world.place)
    typed = {"name": "a/b", "licence": "", "visibility": "public", "card": "# <b>kept</b>", "tags": "一，二"}
    page = browser(world.scientist).post(f"/models/{version.model_id}/edit", typed).content.decode()
    assert "2 fields need a look" in page
    assert "# &lt;b&gt;kept&lt;/b&gt;" in page
    assert 'value="一，二"' in page


def test_a_job_is_registered_from_its_page_once(world: World) -> None:
    job = factories.job(world.scientist, world.place, running_at=None)
    client = browser(world.scientist)
    assert b"act-register" not in client.get(f"/jobs/{job.pk}/").content, "it never ran"
    job.running_at = job.created_at
    job.document = {"template": "command", "name": "n", "image": "a:1", "command": "true", "ranks": 1}
    job.save()
    assert b"act-register" in client.get(f"/jobs/{job.pk}/").content
    key = re.search(r'name="key" value="([^"]+)"', client.get(f"/jobs/{job.pk}/register").content.decode())
    assert key
    said = {"key": key[1], "name": "港口", "licence": "MIT", "visibility": "tenant"}
    first, second = (client.post(f"/jobs/{job.pk}/register", said) for _press in range(2))
    assert first["Location"] == second["Location"]
    version = ModelVersion.objects.get()
    assert version.lineage["code"] == {"image": "a:1", "command": ["true"]}
    assert "environment" not in version.lineage["parameters"]


def test_two_keys_that_begin_alike_are_two_requests(world: World) -> None:
    job = factories.job(world.scientist, world.place)
    Job.objects.for_system().update(running_at=job.created_at)
    client = browser(world.scientist)

    def register(name: str) -> Any:
        path, headers = f"/api/v1/jobs/{job.pk}/register", {"Idempotency-Key": f"{'k' * 100}{name}"}
        said = {"name": name, "licence": "MIT"}
        return client.post(path, said, content_type="application/json", headers=headers).json()["model"]

    assert register("harbour") == register("harbour") != register("lighthouse")


def test_the_digest_of_charlms_text_is_that_of_its_text() -> None:
    import hashlib

    data = TEMPLATES["charlm"].data
    assert data is not None
    assert data[1] == hashlib.sha256(write().encode()).hexdigest()
