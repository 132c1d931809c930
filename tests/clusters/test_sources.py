"""Entering a cluster's Prometheus or Loki: as its credential, by letterbox and worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection

from apps.accounts.domain import Role
from apps.adapters.errors import NotFound, Unavailable
from apps.audit.models import Entry
from apps.clusters import reconcile
from apps.clusters.models import Cluster, ClusterSource
from apps.clusters.services import connect, entering, sources
from apps.clusters.services.sources import SourceAccess
from tests.adapters.scripted import Exchange, Scripted, scripted
from tests.factories import World
from tests.loki import loki
from tests.pages import browser

KIND = ClusterSource.Kind.PROMETHEUS
State = ClusterSource.State


@pytest.fixture(autouse=True)
def open_line(secrets_server: None) -> Iterator[None]:
    connect.vault.cache_clear()
    entering.letterbox.cache_clear()
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]
    connect.vault.cache_clear()
    entering.letterbox.cache_clear()


def answers(exchange: Exchange) -> None:
    if exchange.headers["Authorization"] not in (None, "Bearer good"):
        exchange.answer(401)
    elif exchange.path.endswith("/buildinfo"):
        exchange.answer(200, {"status": "success", "data": {"version": "3.7.1"}})
    else:
        exchange.answer(200, {"status": "success", "data": {"resultType": "matrix", "result": []}})


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(answers) as it:
        yield it


@pytest.fixture
def cluster(world: World) -> Cluster:
    return world.place.cluster


def enter(world: World, url: str, token: str = "") -> ClusterSource:
    actor = world.actor(Role.OPERATOR)
    return sources.enter_source(actor, cluster=world.place.cluster, kind=KIND, access=SourceAccess(url, token=token))


def states(cluster: Cluster) -> list[tuple[str, str]]:
    return list(ClusterSource.objects.filter(cluster=cluster).order_by("pk").values_list("url", "state"))


def test_it_is_used_once_a_worker_has_checked_it(world: World, cluster: Cluster, server: Scripted) -> None:
    row = enter(world, f"{server.url}/", "good")
    assert server.requests == []  # the web asks nobody
    assert sources.in_use(cluster.pk, KIND) is None
    reconcile.check_source(row.pk)
    used = sources.in_use(cluster.pk, KIND)
    assert used is not None
    assert (used.url, used.version, used.error) == (server.url, "3.7.1", "")
    assert connect.vault().read(used.path) == {"token": "good"}
    said = list(Entry.objects.order_by("id").values_list("action", flat=True))
    assert said == ["cluster.source-entered", "cluster.source-accepted"]


def test_what_is_in_use_stays_until_the_new_one_has_passed(world: World, cluster: Cluster, server: Scripted) -> None:
    first = enter(world, server.url, "good")
    reconcile.check_source(first.pk)
    second = enter(world, f"{server.url}/other", "wrong")
    reconcile.check_source(second.pk)
    assert states(cluster) == [(server.url, State.READY), (f"{server.url}/other", State.FAILED)]
    second.refresh_from_db()
    assert second.error == "Prometheus did not accept the token (HTTP 401)."
    third = enter(world, f"{server.url}/third")  # without a token
    reconcile.check_source(third.pk)
    for pk in sources.due_sources():
        reconcile.check_source(pk)
    assert states(cluster) == [(f"{server.url}/third", State.READY)]
    for gone in (first, second):
        with pytest.raises(NotFound):
            connect.vault().read(gone.path)


def test_one_that_failed_is_checked_again_when_it_was_mended(world: World, cluster: Cluster, server: Scripted) -> None:
    server.script = lambda exchange: exchange.answer(503, b"starting")
    row = enter(world, server.url, "good")
    reconcile.check_source(row.pk)
    assert states(cluster) == [(server.url, State.FAILED)]
    server.script = answers
    client = browser(world.people[Role.OPERATOR])
    assert "HTTP 503: starting" in client.get(f"/clusters/{cluster.slug}/").content.decode()
    assert client.post(f"/clusters/{cluster.slug}/sources/prometheus/check").status_code == 302
    reconcile.check_source(row.pk)
    assert states(cluster) == [(server.url, State.READY)]


def test_removed_it_leaves_no_token(world: World, cluster: Cluster, server: Scripted) -> None:
    row = enter(world, server.url, "good")
    reconcile.check_source(row.pk)
    client = browser(world.people[Role.OPERATOR])
    assert client.post(f"/clusters/{cluster.slug}/sources/prometheus/remove").status_code == 302
    assert sources.in_use(cluster.pk, KIND) is None
    reconcile.check_source(row.pk)
    assert states(cluster) == []
    with pytest.raises(NotFound):
        connect.vault().read(row.path)


def test_nothing_is_kept_while_the_secrets_server_is_away(
    world: World, cluster: Cluster, server: Scripted, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.VAULT_ADDR = "http://127.0.0.1:1"
    entering.letterbox.cache_clear()
    with pytest.raises(Unavailable):
        enter(world, server.url, "good")
    assert states(cluster) == [(server.url, State.DROPPED)]
    body = {"url": server.url, "token": "good"}
    answer = browser(world.people[Role.OPERATOR]).post(f"/clusters/{cluster.slug}/sources/prometheus", body)
    assert answer.status_code == 503
    assert "good" not in answer.content.decode().replace("goods", "")


@pytest.mark.parametrize(
    "url",
    [
        "prometheus:9090", "ftp://prometheus", "https://", "http://prometheus:9090", "http://169.254.169.254/",
        "https://user:word@prometheus", "https://prometheus?query=up", "https://prometheus#here", "https://a b",
        "https://prometheus:port", "https://[::1", "https://prometheus/\x00",
    ],
)  # fmt: skip
def test_addresses_that_are_not_spoken_to(world: World, url: str) -> None:
    with pytest.raises(ValidationError):
        enter(world, url)
    assert not ClusterSource.objects.exists()


def test_an_authority_that_is_none_is_said_beside_its_field(world: World, cluster: Cluster) -> None:
    for none in ("证书", "-----BEGIN CERTIFICATE-----"):
        body = {"url": "https://10.0.0.1", "ca_pem": none}
        answer = browser(world.people[Role.OPERATOR]).post(f"/clusters/{cluster.slug}/sources/prometheus", body)
        assert answer.status_code == 422
        assert "no certificate in PEM form" in answer.content.decode()


def test_by_rest(world: World, cluster: Cluster, server: Scripted) -> None:
    client, path = browser(world.people[Role.OPERATOR]), f"/api/v1/clusters/{cluster.slug}/sources/prometheus"
    answer = client.put(path, {"url": server.url, "token": "good"}, content_type="application/json")
    assert answer.status_code == 202
    assert (answer.json()["state"], answer.json()["has_token"]) == ("checking", True)
    reconcile.check_source(ClusterSource.objects.get().pk)
    (used,) = client.get(path).json()
    assert (used["state"], used["version"]) == ("ready", "3.7.1")
    assert client.put(path, {"url": "http://10.0.0.1"}, content_type="application/json").status_code == 400
    assert client.delete(path).status_code == 204
    assert client.get(path).json() == []
    assert client.get(path.replace("prometheus", "other")).status_code == 404


def test_a_removed_cluster_leaves_no_token_of_it(world: World, server: Scripted) -> None:
    cluster = Cluster.objects.create(slug="spare", name="Spare", server="http://127.0.0.1:1", credential_path="x/spare")
    access = SourceAccess(server.url, token="good")
    row = sources.enter_source(world.actor(Role.OPERATOR), cluster=cluster, kind=KIND, access=access)
    reconcile.check_source(row.pk)
    Cluster.objects.filter(pk=cluster.pk).update(state=Cluster.State.LEAVING, due_at="2020-01-01T00:00Z")
    reconcile.tend(cluster.pk)
    assert not ClusterSource.objects.exists()
    with pytest.raises(NotFound):
        connect.vault().read(row.path)


def test_a_loki_is_checked_as_what_it_is(world: World, cluster: Cluster) -> None:
    actor, kind = world.actor(Role.OPERATOR), ClusterSource.Kind.LOKI
    with loki(token="good", org="team-a") as small:
        row = sources.enter_source(actor, cluster=cluster, kind=kind, access=SourceAccess(small.url, token="good"))
        reconcile.check_source(row.pk)
        row.refresh_from_db()
        assert (row.state, row.error) == (
            State.FAILED, "Loki keeps the logs of several tenants and was told none (X-Scope-OrgID)."
        )  # fmt: skip
        access = SourceAccess(small.url, token="good", org=" team-a ")
        row = sources.enter_source(actor, cluster=cluster, kind=kind, access=access)
        reconcile.check_source(row.pk)
        used = sources.in_use(cluster.pk, kind)
        assert used is not None
        assert (used.url, used.org, used.version) == (small.url, "team-a", "3.5.7")
        assert sources.in_use(cluster.pk, KIND) is None
        page = browser(world.people[Role.OPERATOR]).get(f"/clusters/{cluster.slug}/").content.decode()
        assert "tenant team-a" in page


def test_what_is_no_loki_is_not_taken_for_one(world: World, cluster: Cluster, server: Scripted) -> None:
    actor, kind = world.actor(Role.OPERATOR), ClusterSource.Kind.LOKI
    row = sources.enter_source(actor, cluster=cluster, kind=kind, access=SourceAccess(server.url))
    reconcile.check_source(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error) == (State.FAILED, "Loki answered without lines.")  # a Prometheus, rather


@pytest.mark.parametrize("org", ["team a", "a/b", "a\nb", "团队", "x" * 151, "a||b", "|"])
def test_names_that_no_loki_lets_a_tenant_have(world: World, cluster: Cluster, org: str) -> None:
    client = browser(world.people[Role.OPERATOR])
    body = {"url": "https://loki.example", "org": org}
    answer = client.post(f"/clusters/{cluster.slug}/sources/loki", body)
    assert answer.status_code == 422
    assert 'value="https://loki.example"' in answer.content.decode()
    path = f"/api/v1/clusters/{cluster.slug}/sources/loki"
    assert list(client.put(path, body, content_type="application/json").json()["errors"]) == ["org"]
    assert not ClusterSource.objects.exists()


def test_a_prometheus_is_asked_for_no_tenant(world: World, cluster: Cluster) -> None:
    client, path = browser(world.people[Role.OPERATOR]), f"/api/v1/clusters/{cluster.slug}/sources/prometheus"
    answer = client.put(path, {"url": "https://a.example", "org": "team-a"}, content_type="application/json")
    assert answer.status_code == 400
    assert "X-Scope-OrgID" not in client.get(f"/clusters/{cluster.slug}/sources/prometheus").content.decode()
    assert "X-Scope-OrgID" in client.get(f"/clusters/{cluster.slug}/sources/loki").content.decode()
