"""The adapter on the small cluster's API server: the behaviour that reconcilers lean on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.adapters.errors import Conflict, NotFound, Refused
from apps.adapters.kubernetes import AnotherObject, KubeApi, NotInstalled, object_path, objects
from tests.clusters.smallcluster import SmallCluster


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApi]:
    one = SmallCluster(tmp_path_factory.mktemp("cluster")).start()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    try:
        one.api.apply(object_path(namespace), namespace)
        yield one.api
    finally:
        one.stop()


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team-a"}, "data": data}


def test_the_same_apply_again_writes_nothing(api: KubeApi) -> None:
    path = object_path(config("a"))
    first = api.apply(path, config("a", k="1")).object["metadata"]
    assert api.apply(path, config("a", k="1")).object["metadata"]["resourceVersion"] == first["resourceVersion"]
    assert api.apply(path, config("a", k="2")).object["metadata"]["resourceVersion"] != first["resourceVersion"]


def test_a_late_apply_does_not_bring_a_deleted_object_back(api: KubeApi) -> None:
    path = object_path(config("b"))
    uid = api.apply(path, config("b", k="1")).object["metadata"]["uid"]
    late = config("b", k="1")
    late["metadata"]["uid"] = uid
    assert api.delete(path, uid=uid) is True
    with pytest.raises(AnotherObject):
        api.apply(path, late)
    again = api.apply(path, config("b", k="1")).object["metadata"]["uid"]
    assert again != uid
    assert api.delete(path, uid=uid) is False
    assert api.get(path)["metadata"]["uid"] == again


def test_a_dry_run_leaves_nothing(api: KubeApi) -> None:
    path = object_path(config("c"))
    assert api.apply(path, config("c", k="1"), dry_run=True).object["data"] == {"k": "1"}
    with pytest.raises(NotFound):
        api.get(path)


def test_somebody_elses_field_is_a_conflict_until_forced(api: KubeApi) -> None:
    path = object_path(config("d"))
    api.create(objects.path(objects.CONFIG_MAP, "team-a"), config("d", k="theirs"))
    api.merge_patch(path, {"data": {"k": "patched"}})
    with pytest.raises(Conflict):
        api.apply(path, config("d", k="ours"))
    assert api.apply(path, config("d", k="ours"), force=True).object["data"] == {"k": "ours"}


def test_a_stale_lock_is_a_conflict(api: KubeApi) -> None:
    path = object_path(config("e"))
    version = api.apply(path, config("e", k="1")).object["metadata"]["resourceVersion"]
    api.apply(path, config("e", k="2"))
    with pytest.raises(Conflict):
        api.merge_patch(path, {"metadata": {"resourceVersion": version}, "data": {"k": "3"}})


def test_gone_and_not_installed_are_not_mixed(api: KubeApi) -> None:
    with pytest.raises(NotFound):
        api.get(objects.path(objects.VOLCANO_JOB, "team-a", "none"))
    with pytest.raises(NotInstalled):
        api.get("/apis/nope.example.com/v1/namespaces/team-a/things/none")
    with pytest.raises(Refused):
        api.list("/apis/nope.example.com/v1/things")


def test_lists_are_selected(api: KubeApi) -> None:
    for name, team in (("f", "x"), ("g", "x"), ("h", "y")):
        body = config(name)
        body["metadata"]["labels"] = {"team": team}
        api.apply(object_path(body), body)
    found = api.list(objects.path(objects.CONFIG_MAP, "team-a"), label_selector="team=x")
    assert sorted(item["metadata"]["name"] for item in found) == ["f", "g"]
    assert {item["kind"] for item in found} == {"ConfigMap"}
