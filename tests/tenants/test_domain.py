"""Reach as it is written and what becomes of it; differences as they are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.tenants.domain.drift import Difference, Found, differences, is_ours
from apps.tenants.domain.place import Place, place_steps
from apps.tenants.domain.reach import Peer, Reach, allow, portal_peer, read_peer


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("store=10.100.0.0/16", Peer("store", "10.100.0.0/16")),
        ("hub=10.0.5.10@443+8443", Peer("hub", "10.0.5.10/32", (443, 8443))),
        ("six=fd00::/8@80", Peer("six", "fd00::/8", (80,))),
    ],
)
def test_a_peer_is_read(text: str, peer: Peer) -> None:
    assert read_peer(text) == peer


@pytest.mark.parametrize(
    "text", ["10.0.0.1", "a=host.example", "a=10.0.0.1/8", "a=1.2.3.4@0", "a=1.2.3.4@x", "A=1.2.3.4"]
)
def test_a_peer_that_would_be_misunderstood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.split("@")[0].split("/")[0]):
        read_peer(text)


@pytest.mark.parametrize(
    ("url", "peer"),
    [
        ("http://127.0.0.1:8000", Peer("portal", "127.0.0.1/32", (8000,))),
        ("https://[fd00::1]", Peer("portal", "fd00::1/128", (443,))),
        ("https://portal.example", None),
    ],
)
def test_the_portals_address_where_it_is_one(url: str, peer: Peer | None) -> None:
    assert portal_peer(url) == peer


def test_pods_of_a_tenant_reach_each_other_and_dns_and_what_is_named() -> None:
    """Ranks must reach each other both ways, and names must resolve by UDP first."""
    spec = allow(Reach(to=(Peer("store", "10.1.0.0/16"),), by=(Peer("gateway", "10.2.0.1/32", (8000,)),)))
    same_namespace = {"podSelector": {}}
    assert spec["ingress"] == [
        {"from": [same_namespace]},
        {"from": [{"ipBlock": {"cidr": "10.2.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 8000}]},
    ]
    inside, dns, store = spec["egress"]
    assert inside == {"to": [same_namespace]}
    assert [port["protocol"] for port in dns["ports"]] == ["UDP", "TCP"]
    assert store == {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    assert not any(
        "namespaceSelector" in to and "podSelector" not in to for rule in spec["egress"] for to in rule["to"]
    )


def test_the_mark_changes_with_what_is_wanted_and_with_the_round() -> None:
    def marks(gpus: int, round_: int) -> dict[str, str]:
        place = Place("nlp", "tenant-nlp", "tenant-nlp", "nvidia.com/gpu", gpus)
        return {step.key: step.mark(round_) for step in place_steps(place)}

    assert marks(8, 1) == marks(8, 1)
    more = marks(9, 1)
    assert {key for key, mark in marks(8, 1).items() if more[key] != mark} == {"quota", "queue"}
    assert not set(marks(8, 1).values()) & set(marks(8, 2).values())


def test_differences_are_named_by_field_and_the_servers_own_fields_are_none() -> None:
    live = {"metadata": {"uid": "a", "labels": {"x": "1"}}, "spec": {"limits": [{"max": {"cpu": "4"}}]}, "status": 1}
    wanted = {"metadata": {"uid": "b", "labels": {"x": "2"}}, "spec": {"limits": [{"max": {}}]}, "status": 2}
    assert differences(live, wanted) == (
        Difference("metadata.labels.x", "1", "2"),
        Difference("spec.limits[0].max.cpu", "4", ""),
    )


@pytest.mark.parametrize(
    ("metadata", "ours"),
    [
        ({"labels": {"maas.portal/tenant": "nlp"}}, True),
        ({"labels": {"maas.portal/tenant": "vision"}}, False),
        ({"managedFields": [{"manager": "maas-portal", "operation": "Apply"}]}, True),
        ({"managedFields": [{"manager": "kubectl", "operation": "Apply"}]}, False),
        ({}, False),
    ],
)
def test_whose_an_object_is(metadata: dict[str, object], ours: bool) -> None:
    assert is_ours({"metadata": metadata}, "nlp") is ours


def test_what_was_found_survives_its_row() -> None:
    found = Found("quota", "ResourceQuota", "tenant", "drifted", (Difference("spec.hard", "{}", "1"),), "", "1:a", "7")
    assert Found.from_row(found.to_row()) == found


@given(st.integers(0, 10**9), st.sampled_from(["nvidia.com/gpu", "huawei.com/Ascend910", "acme.example/npu"]))
def test_volcano_4492_the_namespace_and_the_queue_never_disagree(gpus: int, accelerator: str) -> None:
    """volcano-sh/volcano#4492: pods beyond the queue's limit were made, waited, and filled the namespace's quota. Here
    one number becomes both limits, so that whoever is within one is within the other; and a gang enters its queue
    before any pod of it is made."""
    steps = {step.key: step.manifest for step in place_steps(Place("a", "tenant-a", "tenant-a", accelerator, gpus))}
    hard, limit = steps["quota"]["spec"]["hard"], steps["queue"]["spec"]["capability"]
    assert hard == {f"requests.{accelerator}": limit[accelerator]}
    assert limit == {accelerator: str(gpus)}
