"""Clusters by REST: the same use-cases, and tokens that only go in."""

from __future__ import annotations

from typing import Any

from apps.accounts.domain import Role
from apps.clusters.models import Cluster
from tests.clusters.test_entering import kubeconfig, open_line, work_off
from tests.factories import World
from tests.pages import browser

__all__ = ["kubeconfig", "open_line"]

JSON: dict[str, Any] = {"content_type": "application/json"}


def test_a_cluster_from_entry_to_removal(world: World, kubeconfig: str) -> None:
    client = browser(world.people[Role.OPERATOR])
    sent = {"slug": "train-n", "name": "Train N", "kubeconfig": kubeconfig}
    answer = client.post("/api/v1/clusters", sent, **JSON)
    assert (answer.status_code, answer.json()["state"]) == (202, "new")
    assert client.post("/api/v1/clusters", sent, **JSON).status_code == 409
    work_off()
    body = client.get("/api/v1/clusters/train-n").json()
    assert (body["state"], body["takes_work"], body["checks"][0]["key"]) == ("ready", True, "token")
    assert "token" not in body.keys() | body["checks"][0].keys()
    assert "credential_path" not in body
    said = client.put("/api/v1/clusters/train-n/maintenance", {"reason": "firmware"}, **JSON).json()
    assert (said["takes_work"], said["maintenance_reason"]) == (False, "firmware")
    assert client.delete("/api/v1/clusters/train-n/maintenance").status_code == 204
    wrong = {"pools": [{"name": "a", "role": "fun"}]}
    assert client.put("/api/v1/clusters/train-n/profile", wrong, **JSON).json()["errors"]["pools.0.role"]
    right = {"fabric": "roce", "pools": [{"name": "a", "role": "training"}]}
    assert client.put("/api/v1/clusters/train-n/profile", right, **JSON).json()["fabric"] == "roce"
    assert client.post("/api/v1/clusters/train-n/remove", {"name": "train"}, **JSON).status_code == 400
    assert client.post("/api/v1/clusters/train-n/remove", {"name": "train-n"}, **JSON).status_code == 204
    assert client.get("/api/v1/clusters/train-n").status_code == 404
    assert client.get("/clusters/train-n/").status_code == 404


def test_a_cluster_that_is_not_ready_is_the_operators_alone(world: World) -> None:
    Cluster.objects.create(slug="raw", name="Raw", server="https://10.0.0.1:6443", state=Cluster.State.NEW)
    assert browser(world.people[Role.OPERATOR]).get("/api/v1/clusters/raw").status_code == 200
    assert browser(world.scientist).get("/api/v1/clusters/raw").status_code == 404
    assert "Raw" not in browser(world.scientist).get("/clusters/").content.decode()


def test_what_is_no_cluster_is_refused_by_field(world: World) -> None:
    client, right = browser(world.people[Role.OPERATOR]), {"slug": "train-n", "name": "N", "token": "a.b.c"}
    for wrong, field in (
        ({"server": "https://[::1"}, "server"),
        ({"server": "https://10.0.0.1:6443", "ca_pem": "证书"}, "ca_pem"),
        ({"server": "https://10.0.0.1:6443", "name": "\u202enamed backwards"}, "name"),
    ):
        answer = client.post("/api/v1/clusters", right | wrong, **JSON)
        assert answer.status_code == 400
        assert set(answer.json()["errors"]) == {field}
    assert not Cluster.objects.filter(slug="train-n").exists()


def test_what_is_no_object_is_refused(world: World) -> None:
    Cluster.objects.filter(slug="train-a").update(state=Cluster.State.READY)
    client = browser(world.people[Role.OPERATOR])
    for path in ("credential", "profile", "maintenance", "sources/prometheus"):
        for wrong in ([1], "text", 7, [["fabric", "roce"]]):
            answer = client.put(f"/api/v1/clusters/train-a/{path}", wrong, **JSON)
            assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json"), (path, wrong)
