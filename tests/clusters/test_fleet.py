"""The pages of the fleet, with five thousand nodes too."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.catalog.domain.fit import places
from apps.catalog.services import market
from apps.clusters.domain.capacity import capacity_of
from apps.clusters.models import Cluster, ClusterNode, ClusterSample
from apps.clusters.services import catalogue, fleet
from apps.clusters.services.fleet import Filter
from apps.clusters.services.samples import note_sample
from apps.clusters.services.seen import keep_nodes, nodes_unlike, note_comparison, note_nodes
from apps.clusters.watch.nodes import Inventory
from apps.clusters.watch.projections import NODES
from apps.jobs.domain.manifests import JOB_LABEL
from apps.serving.services import fitting
from tests import factories
from tests.clusters.fleet_made import ill, many, node, pod
from tests.factories import World
from tests.pages import browser

pytestmark = pytest.mark.django_db
WATCH = Actor.system("watch")


def test_five_thousand_nodes_cost_as_many_queries_as_five_and_a_bounded_page(world: World) -> None:
    cluster, client = world.place.cluster, browser(world.people[Role.OPERATOR])
    many(cluster, 5, lambda n: n % 9)
    with CaptureQueriesContext(connection) as few:
        assert client.get("/fleet/").status_code == 200
    many(cluster, 5000, lambda n: n % 9)
    with CaptureQueriesContext(connection) as lots:
        page = client.get("/fleet/")
    assert len(lots) == len(few)
    assert len(page.content) < 250_000
    assert page.content.count(b"h8v8h-8z") == 5000
    with CaptureQueriesContext(connection) as listed:
        table = client.get("/fleet/nodes")
    assert len(listed) < 25
    assert table.content.count(b'class="row-name"') == 50


def test_every_node_is_on_one_page_of_the_list_and_back(world: World) -> None:
    many(world.place.cluster, 120, lambda n: 0)
    client, address, seen = browser(world.scientist), "/fleet/nodes?state=idle", []
    pages = []
    while address:
        context = client.get(address).context
        seen += [row.name for row, _look in context["rows"]]
        pages.append(context["page"])
        address = f"/fleet/nodes?{context['page']['on']}" if context["page"]["on"] else ""
    assert seen == sorted(seen)
    assert len(seen) == 120 == len(set(seen))
    back = client.get(f"/fleet/nodes?{pages[-1]['back']}").context
    assert [row.name for row, _look in back["rows"]] == seen[50:100]


def test_a_node_names_work_to_those_alone_who_may_see_it(world: World) -> None:
    job = factories.job(world.scientist, world.place)
    held = [pod("tenant-nlp", "j-1-worker-0", 4, JOB_LABEL, job.pk), pod("kube-other", "secret-name", 2)]
    note_nodes(world.place.cluster_id, [node("gpu-0001", held)])
    address = "/fleet/nodes/train-a/gpu-0001"
    mine = browser(world.scientist).get(address).content.decode()
    assert f'href="/jobs/{job.pk}/"' in mine
    assert "secret-name" not in mine
    stranger = browser(world.stranger()).get(address).content.decode()
    assert job.pk not in stranger
    assert "j-1-worker-0" not in stranger
    assert "tenant-nlp" not in stranger
    assert "secret-name" in browser(world.people[Role.OPERATOR]).get(address).content.decode()


def test_a_silent_cluster_is_marked_and_promises_nothing(world: World) -> None:
    other = Cluster.objects.create(slug="train-b", name="Train B", server="http://127.0.0.1:2")
    many(world.place.cluster, 3, lambda n: 0)
    many(other, 2, lambda n: 0)
    since = timezone.now() - timedelta(hours=2)
    Cluster.objects.filter(pk=other.pk).update(unreachable_since=since, seen_at=since)
    found = fleet.fleet(world.actor(Role.SCIENTIST))
    assert (found.total, found.free, found.whole_free) == (40, 24, 3)
    page = browser(world.scientist).get("/fleet/").content.decode()
    assert page.count("stale-map") == 1
    node_page = browser(world.scientist).get("/fleet/nodes/train-b/gpu-0000").content.decode()
    assert "is silent since" in node_page


def test_the_worst_comes_first_and_filters_find_it(world: World) -> None:
    kinds = ("tainted", "cordoned", "devices", "condition", "silent")
    made = [node(f"n-{n}", **ill(kind)) for n, kind in enumerate(kinds)]
    note_nodes(world.place.cluster_id, [*made, node("well"), node("part", [pod("x", "p", 3)])])
    actor = world.actor(Role.SCIENTIST)
    (stand,) = fleet.fleet(actor).stands
    assert [one.problem for one in stand.ill] == ["silent", "condition", "devices", "cordoned", "tainted"]

    def names(**values: str) -> set[str]:
        return set(fleet.nodes_found(actor, Filter(**values)).values_list("name", flat=True))

    assert names(state="ill") == {"n-2", "n-3", "n-4"}
    assert names(state="kept-back") == {"n-0", "n-1"}
    assert names(state="pieces") == {"part"}
    assert names(text="WELL") == {"well"}
    assert names(pool="infer") == set()


def test_a_tenant_lights_its_nodes_and_is_told_its_pieces(world: World) -> None:
    made = [node("a", [pod("tenant-nlp", "p", 4)]), node("b", [pod("tenant-vision", "q", 6)]), node("c")]
    note_nodes(world.place.cluster_id, made)
    found = fleet.fleet(world.actor(Role.OPERATOR), tenant="nlp")
    cells = {cell.name: (cell.used, cell.dim) for group in found.stands[0].groups for cell in group.cells}
    assert cells == {"a": (4, False), "b": (0, True), "c": (0, True)}
    assert [(one.owner.slug, one.piece.free) for one in found.stands[0].blamed if one.owner] == [
        ("nlp", 4),
        ("vision", 2),
    ]
    blamed = fleet.fleet(world.stranger().actor()).stands[0].blamed
    assert [one.owner.slug if one.owner else "" for one in blamed] == ["", "vision"]


def test_only_what_changed_is_written_and_told(world: World) -> None:
    cluster = world.place.cluster
    first = [node("a"), node("b")]
    assert note_nodes(cluster.pk, first)
    assert not note_nodes(cluster.pk, [node("a"), node("b")])
    stamps = dict(ClusterNode.objects.values_list("name", "changed_at"))
    assert note_nodes(cluster.pk, [node("a"), node("b", cordoned=True)])
    now = dict(ClusterNode.objects.values_list("name", "changed_at"))
    assert now["a"] == stamps["a"]
    assert now["b"] > stamps["b"]
    assert note_nodes(cluster.pk, [node("a")])
    assert set(ClusterNode.objects.values_list("name", flat=True)) == {"a"}


def test_thousands_of_nodes_are_written_in_parts_between_which_the_lease_can_be_renewed(world: World) -> None:
    cluster_id = world.place.cluster_id
    note_nodes(cluster_id, [node(f"old-{n}") for n in range(3)])
    seen = [node(f"gpu-{n:04d}") for n in range(1200)]
    parts = list(nodes_unlike(cluster_id, seen).parts())
    assert [(len(part.changed), len(part.gone)) for part in parts] == [(0, 3), (500, 0), (500, 0), (200, 0)]
    for part in parts:
        keep_nodes(cluster_id, part)
    assert not nodes_unlike(cluster_id, seen)


def test_a_day_of_a_cluster_is_drawn_from_its_samples_with_its_silences_left_out(world: World) -> None:
    cluster, now = world.place.cluster, timezone.now()
    note_nodes(cluster.pk, [node("a", [pod("tenant-nlp", "p", 4)])])
    page = browser(world.scientist)
    assert page.get("/fleet/?cluster=train-a").context["curve"] is None
    for minutes in (900, 890, 300, 10):
        note_sample(cluster.pk, capacity_of([node("a", [pod("tenant-nlp", "p", 4)]).space]))
        ClusterSample.objects.filter(pk=ClusterSample.objects.latest("pk").pk).update(
            at=now - timedelta(minutes=minutes)
        )
    ClusterSample.objects.create(cluster=cluster, at=now - timedelta(days=9), total=8, used=8, free=0, in_pieces=0)
    note_sample(cluster.pk, capacity_of([]))
    curve = page.get("/fleet/?cluster=train-a").context["curve"]
    assert [len(run) for run in curve.past.runs] == [2, 1, 2]
    assert (curve.past.most, curve.past.mean, ClusterSample.objects.count()) == (8, 50, 5)


def test_what_the_last_comparison_found_is_said_by_page_and_rest(world: World) -> None:
    cluster, client = world.place.cluster, browser(world.people[Role.OPERATOR])
    for differed in (2, 0):
        note_comparison(cluster.pk, 5130, differed)
    told = client.get(f"/api/v1/clusters/{cluster.slug}").json()
    assert [told[f"objects_{name}"] for name in ("compared", "differing", "differing_ever")] == [5130, 0, 2]
    assert told["compared_at"]
    assert "5,130" in client.get(f"/clusters/{cluster.slug}/").content.decode()


def test_an_entry_of_operators_counts_at_the_next_look(world: World) -> None:
    document = {
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
        "status": {
            "capacity": {"next.example/tpu9": "4"}, "allocatable": {"next.example/tpu9": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip
    one, inventory = NODES.decode(json.dumps(document)), Inventory(world.place.cluster_id)
    keep_nodes(world.place.cluster_id, inventory.unlike([one], []))
    assert ClusterNode.objects.get().total == 0
    client = browser(world.people[Role.OPERATOR])
    form = {"slug": "tpu9", "name": "TPU 9", "counts": "device", "resources": "next.example/*", "memory": "96 GB"}
    assert client.post("/fleet/accelerators/new", {**form, "memory": "much"}).status_code == 422
    assert client.post("/fleet/accelerators/new", {**form, "link_name": "Mesh"}).status_code == 422
    assert client.post("/fleet/accelerators/new", form).status_code == 302
    keep_nodes(world.place.cluster_id, inventory.unlike([one], []))
    seen = ClusterNode.objects.get()
    assert (seen.total, seen.product, seen.device_memory) == (4, "TPU 9", 96 * 10**9)
    assert catalogue.remove_accelerator(WATCH, "tpu9")
    keep_nodes(world.place.cluster_id, inventory.unlike([one], []))
    assert ClusterNode.objects.get().total == 0


def test_the_form_gives_back_what_the_catalogue_holds(world: World) -> None:
    client = browser(world.people[Role.OPERATOR])
    before = {one.slug: one for one in catalogue.catalogue().entries}
    initial = client.get("/fleet/accelerators/a800").context["form"].initial
    sent = {key: value for key, value in initial.items() if value not in (None, False)}
    assert client.post("/fleet/accelerators/a800", sent).status_code == 302
    after = {one.slug: one for one in catalogue.catalogue().entries}
    assert after["a800"] == before["a800"]


def test_rest_gives_what_the_pages_show(world: World) -> None:
    note_nodes(world.place.cluster_id, [node("a", [pod("tenant-nlp", "p", 4)]), node("b")])
    client = browser(world.scientist)
    (stand,) = client.get("/api/v1/fleet").json()
    assert (stand["free"], stand["largest_gang"], stand["pieces"]) == (
        12,
        8,
        [{"tenant": "nlp", "nodes": 1, "free": 4}],
    )
    assert stand["pools"] == [{"name": "train", "free": 12, "total": 16, "gangs": {"8": 1, "4": 3, "1": 12}}]
    rows = client.get("/api/v1/nodes?state=pieces").json()["results"]
    assert [(row["name"], row["free"], row["accelerator"]) for row in rows] == [("a", 4, "a800")]
    entry = {"name": "Nine", "counts": "device", "resources": ["nine.example/gpu"], "memory": "96 GB"}
    operator = browser(world.people[Role.OPERATOR])
    saved = operator.put("/api/v1/accelerators/nine", entry, content_type="application/json")
    assert saved.json()["memory"] == 96 * 10**9
    assert "nine" in client.get("/api/v1/accelerators").json()


def test_what_nodes_tell_of_their_memory_decides_what_fits(world: World) -> None:
    """An A10 has 24 GB by its maker and 23,028 MiB by itself; its name says neither."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A10", "nvidia.com/gpu.memory": "23028"}
    note_nodes(world.place.cluster_id, [node("a", labels=labels)])
    assert fitting.accelerator_of(world.place).bytes == 23028 << 20
    _clusters, free = market.free_nodes(world.actor(Role.SCIENTIST))
    (found,) = places(20 << 30, free)
    assert (found.each, found.known) == (2, True)
