"""docs/developers/small-cluster.md says what the small cluster offers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from deploy.local.stack import TREE
from tests.localcluster.contract.exchange import Exchange
from tests.localcluster.contract.rows import Row

DOCUMENT = (TREE / "docs/developers/small-cluster.md").read_text()


def section(title: str) -> str:
    return DOCUMENT.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.fixture
def small(row: Row) -> Iterator[Exchange]:
    if row.name != "small":
        pytest.skip("it is about the small cluster")
    exchange = Exchange(row)
    yield exchange
    exchange.close()


def offered(small: Exchange) -> dict[str, set[str]]:
    groups = small.ask("GET", "/apis").json["groups"]
    versions = ["v1", *(version["groupVersion"] for group in groups for version in group["versions"])]
    paths = {version: f"/apis/{version}" if "/" in version else f"/api/{version}" for version in versions}
    return {
        version: {each["name"] for each in small.ask("GET", path).json["resources"]}
        for version, path in paths.items()
        if ".example.com/" not in version  # definitions that other cases made and have not yet taken away
    }


def test_the_table_of_kinds_is_what_discovery_tells(small: Exchange) -> None:
    rows = re.findall(r"^\| `([\w./]+)` \| (.*) \|$", section("Kinds"), re.MULTILINE)
    assert {version: set(re.findall("`([^`]+)`", names)) for version, names in rows} == offered(small)


@pytest.mark.parametrize(
    "path",
    [
        "/apis/apps/v1/namespaces/default/statefulsets",
        "/apis/batch/v1/namespaces/default/cronjobs",
        "/apis/networking.istio.io/v1/namespaces/default/gateways",
        "/api/v1/namespaces/default/endpoints",
        "/api/v1/namespaces/default/pods/p/exec",
        "/api/v1/watch/pods",
    ],
)
def test_what_is_not_offered_is_not_there(small: Exchange, path: str) -> None:
    assert small.ask("GET", path).status == 404


def test_ways_of_asking_that_are_not_offered_are_refused(small: Exchange) -> None:
    def ask(path: str, **headers: str) -> tuple[int, str]:
        answer = small.send(
            {"method": "GET", "path": path, "headers": {k.replace("_", "-"): v for k, v in headers.items()}}
        )
        return answer.status, answer.json["reason"]

    assert ask("/api/v1/namespaces", Impersonate_User="alice") == (501, "NotImplemented")
    assert ask("/openapi/v2") == (501, "NotImplemented")
    assert ask("/readyz?verbose") == (501, "NotImplemented")
    assert (
        small.send({"method": "GET", "path": "/api/v1/pods", "headers": {"Accept": "application/cbor"}}).status == 406
    )
    assert small.ask("PUT", "/api/v1/namespaces", {}).json["reason"] == "MethodNotAllowed"


def test_a_definition_whose_rules_nobody_would_hold_is_refused(small: Exchange) -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.all(key, key.size() > 2)"}]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "rules", "kind": "Rule"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rules.lab.example.com"},
        "spec": {"group": "lab.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    answer = small.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert (answer.status, answer.json["reason"]) == (501, "NotImplemented")
