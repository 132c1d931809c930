"""Adding a cluster and renewing its credential, against the small cluster's API server and OpenBao."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.domain import Role
from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.kubernetes import Endpoint, KubeApi, objects
from apps.audit.models import Entry
from apps.clusters import reconcile, services
from apps.clusters.domain.checks import NEEDED
from apps.clusters.models import Cluster, ClusterEntry, ClusterNode
from apps.clusters.services import checking, connect, entering
from apps.notices.models import Notice
from apps.tenants import services as tenants
from deploy.local.access import Access
from deploy.local.home import Home
from tests import factories
from tests.factories import World
from tests.pages import browser
from tests.small_cluster import SmallCluster


@pytest.fixture(autouse=True)
def open_line(secrets_server: None) -> Iterator[None]:
    connect.vault.cache_clear()
    entering.letterbox.cache_clear()
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    connect.vault().delete("clusters/train-n")  # the store is shared by all tests
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]
    connect.vault.cache_clear()
    entering.letterbox.cache_clear()


@pytest.fixture(scope="module")
def kubeconfig(api_server: SmallCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The portal's own, made as an operator makes it."""
    home = Home(tmp_path_factory.mktemp("access"))
    home.prepare()
    access = Access(home, api_server.kubeconfig)
    access.grant()
    api = KubeApi(Endpoint(api_server.server, api_server.ca_pem, lambda fresh=False: api_server.token))
    for group, plural in (("batch.volcano.sh/v1alpha1", "jobs"), ("scheduling.volcano.sh/v1beta1", "queues")):
        assert any(one["name"] == plural for one in api.get(f"/apis/{group}")["resources"])
    return access.kubeconfig.read_text()


def access_of(text: str, **changed: str) -> services.Access:
    document = yaml.safe_load(text)
    cluster = document["clusters"][0]["cluster"]
    values = {
        "server": cluster["server"],
        "ca_pem": base64.b64decode(cluster["certificate-authority-data"]).decode(),
        "token": document["users"][0]["user"]["token"],
    }
    return services.Access(**(values | changed))


def entered(world: World, access: services.Access, slug: str = "train-n") -> Cluster:
    """A cluster entered and checked."""
    made = services.enter(world.actor(Role.OPERATOR), slug=slug, name="Train N", access=access)
    work_off()
    made.refresh_from_db()
    return made


def work_off() -> None:
    """Do all that is due for entries, as a worker does."""
    for pk in services.due_entries():
        reconcile.check_entry(pk)


def states(row: Cluster | ClusterEntry) -> dict[str, str]:
    return {one.key: f"{one.state}:{one.code}" for one in row.found}


def stored(path: str) -> str:
    try:
        return connect.vault().read(path)["token"]
    except NotFound:
        return ""


def test_the_account_of_the_manifest_passes_and_nothing_is_left_of_what_was_entered(
    world: World, kubeconfig: str
) -> None:
    access = access_of(kubeconfig)
    cluster = entered(world, access)
    assert cluster.state == "ready", states(cluster.entries.get())
    assert {states(cluster)[key].partition(":")[0] for key in NEEDED} == {"passed"}
    assert cluster.account == "system:serviceaccount:maas-portal:portal"
    assert cluster.version.startswith("v1.")
    assert cluster.expires_at is not None
    assert cluster.days_left == 29
    assert (states(cluster)["kuberay"], states(cluster)["gpu-operator"]) == ("passed:there", "absent:absent")
    assert stored("clusters/train-n") == access.token
    assert stored(cluster.entries.get().path) == ""
    assert connect.connect(cluster).version() == cluster.version
    everything = str(list(Entry.objects.values_list("params", flat=True))) + str(cluster.checks)
    assert access.token not in everything


def test_an_administrators_token_is_refused(world: World, api_server: SmallCluster, kubeconfig: str) -> None:
    cluster = entered(world, access_of(kubeconfig, token=api_server.token))
    assert cluster.state == "new"
    entry = cluster.entries.get()
    assert (entry.state, states(entry)["bounds"]) == ("failed", "failed:everything")
    assert stored("clusters/train-n") == ""
    told = Notice.objects.get(kind="cluster.credential-refused")
    assert str(told.user_id) == world.actor(Role.OPERATOR).user_pk


def account(api_server: SmallCluster, name: str, rules: list[dict[str, Any]]) -> str:
    """A service account with these rules in the whole cluster; its token."""
    api = KubeApi(Endpoint(api_server.server, api_server.ca_pem, lambda fresh=False: api_server.token))
    rbac = "rbac.authorization.k8s.io/v1"
    meta = {"name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "maas-portal"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    for path, body in (
        ("/api/v1/namespaces/maas-portal/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount"}),
        (f"/apis/{rbac}/clusterroles", {"apiVersion": rbac, "kind": "ClusterRole", "rules": rules}),
        (
            f"/apis/{rbac}/clusterrolebindings",
            {"apiVersion": rbac, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
        ),
    ):
        api.create(path, body | {"metadata": meta})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = objects.path(objects.SERVICE_ACCOUNT, "maas-portal", name, "token")
    return str(api.create(path, request).object["status"]["token"])


def test_what_is_missing_is_named_and_checked_again_without_entering_the_token_anew(
    world: World, api_server: SmallCluster, kubeconfig: str
) -> None:
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    token = account(api_server, "poor", [nodes])
    cluster = entered(world, access_of(kubeconfig, token=token))
    (rights,) = [one for one in cluster.entries.get().found if one.key == "rights"]
    assert rights.state == "failed"
    assert "pods: " in rights.params["rights"]
    assert " nodes: " not in rights.params["rights"]
    api = KubeApi(Endpoint(api_server.server, api_server.ca_pem, lambda fresh=False: api_server.token))
    everything_it_needs = [
        rule
        for document in yaml.safe_load_all((Path("deploy/cluster/portal.yaml")).read_text())
        if document["kind"] in ("ClusterRole", "Role") and document["metadata"]["name"] != "maas-portal-tenant"
        for rule in document["rules"]
    ]
    api.merge_patch("/apis/rbac.authorization.k8s.io/v1/clusterroles/poor", {"rules": everything_it_needs})
    services.check_again(world.actor(Role.OPERATOR), cluster=cluster)
    work_off()
    cluster.refresh_from_db()
    assert cluster.state == "ready", states(cluster.entries.get())


@pytest.mark.parametrize("verb", ["impersonate", "escalate"])
def test_an_account_that_could_become_anybody_is_refused(
    world: World, api_server: SmallCluster, kubeconfig: str, verb: str
) -> None:
    group, resource = ("", "users") if verb == "impersonate" else ("rbac.authorization.k8s.io", "clusterroles")
    token = account(api_server, f"may-{verb}", [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}])
    cluster = entered(world, access_of(kubeconfig, token=token))
    assert states(cluster.entries.get())["bounds"] == f"failed:{verb}"


def test_a_bad_credential_never_replaces_a_good_one(world: World, api_server: SmallCluster, kubeconfig: str) -> None:
    good = access_of(kubeconfig)
    cluster = entered(world, good)
    operator = world.actor(Role.OPERATOR)
    for bad in (
        {"token": "not-a-token"},
        {"token": api_server.token},
        {"server": "https://127.0.0.1:1"},
        {"ca_pem": OTHER_AUTHORITY},
    ):
        services.renew(operator, cluster=cluster, access=access_of(kubeconfig, **bad))
        work_off()
        cluster.refresh_from_db()
        newest = cluster.entries.first()
        assert newest is not None
        assert newest.state == "failed", bad
        assert (cluster.state, cluster.server, cluster.ca_pem) == ("ready", good.server, good.ca_pem)
        assert stored("clusters/train-n") == good.token
    first = cluster.entries.last()
    assert first is not None
    assert [stored(one.path) for one in cluster.entries.all()[1:]] == ["", "", "", ""]  # but for the last that failed


def test_a_new_credential_is_used_once_it_has_passed(world: World, api_server: SmallCluster, kubeconfig: str) -> None:
    cluster = entered(world, access_of(kubeconfig))
    api = connect.connect(cluster)
    admin = KubeApi(Endpoint(api_server.server, api_server.ca_pem, lambda fresh=False: api_server.token))
    path = objects.path(objects.SERVICE_ACCOUNT, "maas-portal", "portal", "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400 * 10}}
    token = str(admin.create(path, body).object["status"]["token"])
    Cluster.objects.for_system().filter(pk=cluster.pk).update(warned_days=3)
    services.renew(world.actor(Role.OPERATOR), cluster=cluster, access=access_of(kubeconfig, token=token))
    assert stored("clusters/train-n") != token  # nothing counts before it was checked
    work_off()
    cluster.refresh_from_db()
    assert stored("clusters/train-n") == token
    assert cluster.days_left == 9
    assert cluster.warned_days is None
    assert connect.connect(cluster) is api  # the connection goes on; it reads the token within a minute


def test_the_web_process_can_neither_read_nor_replace_what_was_entered(world: World, kubeconfig: str) -> None:
    cluster = entered(world, access_of(kubeconfig))
    box = entering.letterbox()
    box.put("entered/first", {"token": "a"})
    with pytest.raises(Exception, match="does not let"):
        box.put("entered/first", {"token": "b"})
    with pytest.raises(Exception, match="does not let"):
        box.put(cluster.credential_path, {"token": "b"})
    headers = {"X-Vault-Token": box._login()}
    for path in ("entered/first", cluster.credential_path):
        answer = httpx.get(f"{box._client.base_url}{box._mount}/data/{path}", headers=headers)
        assert answer.status_code == 403


def test_the_same_cluster_is_not_registered_twice(world: World, kubeconfig: str) -> None:
    entered(world, access_of(kubeconfig))
    again = entered(world, access_of(kubeconfig), slug="train-m")
    assert states(again.entries.get())["same"] == "failed:twice"


def test_a_second_press_is_no_second_entry(world: World, kubeconfig: str) -> None:
    access, operator = access_of(kubeconfig, once=uuid.uuid4()), world.actor(Role.OPERATOR)  # type: ignore[arg-type]
    first = services.enter(operator, slug="train-n", name="N", access=access)
    assert services.enter(operator, slug="train-n", name="N", access=access) == first
    with pytest.raises(services.NameTaken):
        services.enter(operator, slug="train-n", name="N", access=access_of(kubeconfig))
    with pytest.raises(ValidationError):
        services.enter(operator, slug="train-x", name="X", access=access_of(kubeconfig, token="two words"))


def test_a_sealed_store_keeps_nothing_and_takes_no_name(
    world: World, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.conf import settings

    address = settings.VAULT_ADDR
    monkeypatch.setattr(settings, "VAULT_ADDR", "http://127.0.0.1:1")
    with pytest.raises(Unavailable):
        services.enter(world.actor(Role.OPERATOR), slug="train-n", name="N", access=access_of(kubeconfig))
    monkeypatch.setattr(settings, "VAULT_ADDR", address)
    entering.letterbox.cache_clear()
    assert not Cluster.objects.visible_to(world.actor(Role.OPERATOR)).filter(slug="train-n").exists()
    assert entered(world, access_of(kubeconfig)).state == "ready"
    for pk in services.due_clusters():
        reconcile.tend(pk)
    assert not Cluster.objects.filter(slug__startswith="never-").exists()


def test_operators_are_told_at_14_and_3_days_and_at_the_end_once_each(world: World) -> None:
    cluster = world.place.cluster
    told = []
    for days in (20, 13, 12, 2, 1, -1, -2):
        Cluster.objects.for_system().filter(pk=cluster.pk).update(expires_at=timezone.now() + timedelta(days=days))
        for _ in range(2):
            checking.warn(cluster.pk)
        told.append(Notice.objects.filter(kind__startswith="cluster.").values("kind", "params").distinct().count())
    assert told == [0, 1, 1, 2, 2, 3, 3]
    people = Notice.objects.filter(kind="cluster.expired").values_list("user_id", flat=True)
    assert [str(pk) for pk in people] == [world.actor(Role.OPERATOR).user_pk]


def test_operators_are_told_once_when_the_credential_in_use_is_rejected(world: World, kubeconfig: str) -> None:
    """At the second look: a cluster that has just started rejects for a moment what it will take."""
    cluster = entered(world, access_of(kubeconfig))
    connect.vault().write(cluster.credential_path, {"token": "revoked"})
    services.note_silence(cluster.pk, "Unauthorized")
    assert cluster.pk in services.due_clusters()
    told = []
    for _ in range(3):
        reconcile.tend(cluster.pk)
        told.append(Notice.objects.filter(kind="cluster.credential-rejected").count())
        Cluster.objects.for_system().filter(pk=cluster.pk).update(due_at=timezone.now())
    assert told == [0, 1, 1]
    client = browser(world.people[Role.OPERATOR])
    assert "It has rejected the portal's credential since" in client.get("/clusters/train-n/").content.decode()
    assert "Credential is rejected" in client.get("/clusters/").content.decode()
    assert "Train N rejects the portal&#x27;s credential" in client.get("/").content.decode()
    services.renew(world.actor(Role.OPERATOR), cluster=cluster, access=access_of(kubeconfig))
    work_off()
    assert "Credential is rejected" not in client.get("/clusters/").content.decode()


def test_removal_forgets_the_credential_and_the_row(world: World, kubeconfig: str) -> None:
    cluster, operator = entered(world, access_of(kubeconfig)), world.actor(Role.OPERATOR)
    with pytest.raises(services.WrongName):
        services.remove(operator, cluster=cluster, typed="train")
    services.remove(operator, cluster=cluster, typed="train-n")
    assert cluster not in services.for_system().used()  # which is what the watch process follows
    reconcile.tend(cluster.pk)
    assert not Cluster.objects.filter(pk=cluster.pk).exists()
    assert stored("clusters/train-n") == ""


def test_removal_is_refused_while_a_tenant_has_its_place_there(world: World) -> None:
    with pytest.raises(services.Occupied) as occupied:
        services.remove(world.actor(Role.OPERATOR), cluster=world.place.cluster, typed="train-a")
    assert any("NLP" in one.text for one in occupied.value.occupants)


def test_what_a_tenant_has_in_another_cluster_does_not_hold_a_removal_up(world: World) -> None:
    factories.job(world.scientist, world.place)
    elsewhere = Cluster.objects.create(slug="train-b", name="Train B", server="https://10.0.0.9:6443")
    second = tenants.ask_placement(
        world.actor(Role.OPERATOR), tenant_id=world.nlp.pk, slug="nlp", cluster_id=elsewhere.pk, gpus=1
    )
    assert [one.text for one in services.occupants_of(elsewhere.pk)] == ["NLP has its place here."]
    assert "NLP: 1 job has not ended." in [one.text for one in services.occupants_of(world.place.cluster_id)]
    tenants.remove(world.actor(Role.OPERATOR), placement=second, typed="nlp")


def test_the_page_adds_a_cluster_and_never_shows_the_token_again(world: World, kubeconfig: str) -> None:
    client = browser(world.people[Role.OPERATOR])
    token = access_of(kubeconfig).token
    faulty = client.post("/clusters/new", {"name": "Train N", "slug": "train n", "kubeconfig": kubeconfig})
    shown = faulty.content.decode()
    assert faulty.status_code == 422
    assert token not in shown
    assert 'value="Train N"' in shown
    assert access_of(kubeconfig).server in shown
    done = client.post("/clusters/new", {"name": "Train N", "slug": "train-n", "kubeconfig": kubeconfig})
    assert done.headers["Location"] == "/clusters/train-n/"
    assert "Being checked" in client.get("/clusters/train-n/").content.decode()
    work_off()
    page = client.get("/clusters/train-n/?part=live").content.decode()
    assert "The portal is system:serviceaccount:maas-portal:portal there." in page
    assert token not in page


def test_a_kubeconfig_that_runs_a_program_is_refused_with_a_sentence(world: World, kubeconfig: str) -> None:
    document = yaml.safe_load(kubeconfig)
    document["users"][0]["user"] = {"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}}
    client = browser(world.people[Role.OPERATOR])
    sent = {"name": "N", "slug": "train-n", "kubeconfig": json.dumps(document)}
    page = client.post("/clusters/new", sent)
    assert page.status_code == 422
    assert "It starts a program to sign in" in page.content.decode()
    assert not Cluster.objects.filter(slug="train-n").exists()


OTHER_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBjzCCATWgAwIBAgIUU2iPb4EFgSFZK2V1YlEmeNrjOR0wCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRYW5vdGhlci1hdXRob3JpdHkwIBcNMjYxMTMwMDcxMTMwWhgP
MjEyNjExMDYwNzExMzBaMBwxGjAYBgNVBAMMEWFub3RoZXItYXV0aG9yaXR5MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAELvf4P1UK6vw43HnqAMOT0PU9UoFjdNyg
LhM8y4wRpbloJIsCsBISNchxo6YogSLXzijIOqlIog2uhYtuV0Bi7qNTMFEwHQYD
VR0OBBYEFFg9zCK1VC1ilwlgoq8GhQWQyT9EMB8GA1UdIwQYMBaAFFg9zCK1VC1i
lwlgoq8GhQWQyT9EMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIg
GyNFHaK81wK0d5C5MQvanJ2TdHMI9q1bGQYcdwN7H1sCIQCTg5hYJN08pVV4j5a0
+HRfM4BvXh3ZASxF2GhbOYNF7A==
-----END CERTIFICATE-----
"""
"""Of nobody; its key was never kept."""


def test_the_list_costs_the_same_with_many_clusters_and_nodes(world: World) -> None:
    client = browser(world.people[Role.OPERATOR])

    def cost() -> int:
        client.get("/clusters/")  # the session's own queries are warm
        with CaptureQueriesContext(connection) as captured:
            page = client.get("/clusters/").content.decode()
        assert "since " in page
        return len(captured)

    Cluster.objects.for_system().update(unreachable_since=timezone.now(), seen_at=timezone.now())
    few = cost()
    for n in range(20):
        made = Cluster.objects.create(slug=f"c{n}", name=f"C{n}", server="https://10.0.0.1", seen_at=timezone.now())
        for m in range(3):
            ClusterNode.objects.create(
                cluster=made, name=f"n{m}", resource="nvidia.com/gpu", total=8, used=m, ready=True
            )
    assert cost() == few
    page = client.get("/clusters/").content.decode()
    assert "<b>21</b> of 24" in page
