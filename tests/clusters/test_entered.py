"""What may be read from a pasted kubeconfig, from a token, and from what operators say of a cluster."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from apps.clusters.domain import checks, kubeconfig, profile, rights, token
from apps.clusters.services import words

CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [
        {"name": "a", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": "UEVN"}},
        {"name": "b", "cluster": {"server": "https://10.0.0.2:6443"}},
    ],
    "users": [{"name": "portal", "user": {"token": "s3cret"}}],
    "contexts": [
        {"name": "one", "context": {"cluster": "a", "user": "portal"}},
        {"name": "two", "context": {"cluster": "b", "user": "portal"}},
    ],
    "current-context": "one",
}


def changed(kind: str, **values: Any) -> str:
    document = json.loads(json.dumps(CONFIG))
    document[f"{kind}s"][0][kind] |= values
    return yaml.safe_dump(document)


def test_the_current_context_is_read_or_the_one_that_is_named() -> None:
    text = yaml.safe_dump(CONFIG)
    assert kubeconfig.read(text) == kubeconfig.Kubeconfig("https://10.0.0.1:6443", "PEM", "s3cret")
    assert kubeconfig.read(text, "two").server == "https://10.0.0.2:6443"
    assert "s3cret" not in repr(kubeconfig.read(text))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (changed("user", exec={"command": "aws"}), "exec"),
        (changed("user", **{"auth-provider": {"name": "gcp"}}), "exec"),
        (changed("user", tokenFile="/var/run/token"), "token-file"),
        (changed("user", **{"client-certificate-data": "UEVN"}), "certificate"),
        (changed("user", **{"client-key": "/home/me/key"}), "certificate"),
        (changed("user", username="admin", password="s3cret"), "password"),
        (changed("user", **{"as": "system:admin"}), "impersonate"),
        (changed("user", token=""), "no-token"),
        (changed("cluster", **{"insecure-skip-tls-verify": True}), "insecure"),
        (changed("cluster", **{"certificate-authority": "/etc/ca.pem"}), "ca-file"),
        (changed("cluster", **{"certificate-authority-data": "%%"}), "ca-data"),
        (changed("cluster", **{"proxy-url": "http://proxy:3128"}), "proxy"),
        (changed("context", cluster="gone"), "dangling"),
        ("kind: Pod", "kind"),
        ("kind: Config", "empty"),
        ("token: s3cret\n  broken: [", "yaml"),
        ("!!python/object/apply:os.system [id]", "yaml"),
        ("[" * 5000, "yaml"),
        ("x" * 70_000, "too-large"),
    ],
)
def test_what_runs_reads_files_or_skips_a_check_is_refused_in_words_without_the_secret(text: str, code: str) -> None:
    with pytest.raises(kubeconfig.Bad) as bad:
        kubeconfig.read(text)
    assert bad.value.code == code
    assert "s3cret" not in words.kubeconfig_text(bad.value)


@given(st.text() | st.recursive(st.text() | st.none(), lambda inner: st.dictionaries(st.text(), inner)).map(json.dumps))
def test_anything_pasted_is_read_or_refused(text: str) -> None:
    try:
        kubeconfig.read(text)
    except kubeconfig.Bad as bad:
        words.kubeconfig_text(bad)


def jwt(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def test_a_service_accounts_token_says_whose_it_is_and_until_when() -> None:
    told = token.read(jwt({"sub": "system:serviceaccount:maas-portal:portal", "exp": 1798614705}))
    assert told == token.Told("system:serviceaccount:maas-portal:portal", datetime.fromtimestamp(1798614705, UTC))


@pytest.mark.parametrize("text", ["opaque", "a.b.c", jwt([]), jwt({"exp": 1e300}), jwt({"exp": "soon", "sub": 7})])
def test_other_tokens_say_nothing(text: str) -> None:
    assert token.read(text) == token.Told()


def test_warnings_come_at_14_and_3_days_and_at_the_end() -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    days = {15: None, 14: 14, 4: 14, 3: 3, 1: 3, 0: 0, -5: 0}
    assert {n: checks.due_warning(now + timedelta(days=n), now) for n in days} == days
    assert checks.due_warning(None, now) is None


MANIFEST = list(yaml.safe_load_all((Path(settings.BASE_DIR) / "deploy/cluster/portal.yaml").read_text()))


def test_the_rights_that_are_needed_are_those_of_the_manifest_and_none_is_too_great() -> None:
    needed = rights.needed(MANIFEST)
    assert rights.Right("batch.volcano.sh", "jobs", "watch") in needed
    given_rules = [{"apiGroups": [r.group], "resources": [r.resource], "verbs": [r.verb],
                    **({"resourceNames": [r.name]} if r.name else {})} for r in needed]  # fmt: skip
    assert rights.missing(given_rules, needed) == []
    too_great = [right for some in rights.FORBIDDEN.values() for right in some]
    assert rights.missing(given_rules, too_great) == sorted(too_great)
    assert rights.missing(given_rules, [rights.READS_SECRETS]) == [rights.READS_SECRETS]


def test_a_rule_for_some_names_does_not_give_the_right_to_all() -> None:
    rule = {"apiGroups": [""], "resources": ["pods", "*/log"], "verbs": ["get"], "resourceNames": ["a"]}
    assert rights.missing([rule], [rights.Right("", "pods", "get")])
    assert not rights.missing([rule], [rights.Right("", "pods", "get", "a")])
    assert not rights.missing([rule | {"resourceNames": []}], [rights.Right("", "pods/log", "get")])
    assert rights.in_words([rights.Right("", "pods", "get"), rights.Right("", "pods", "list")]) == "pods: get, list"


def test_every_finding_has_words() -> None:
    source = (Path(settings.BASE_DIR) / "apps/clusters/reconcile/look.py").read_text()
    for key, code in words.SENTENCES:
        assert key in words.TITLES
        assert f'"{code}"' in source or code in rights.FORBIDDEN, (key, code)
    assert words.TITLES.keys() == {*checks.NEEDED, *checks.EXTRAS}


SAID = {
    "fabric": "infiniband",
    "planes": [{"name": "ib", "purpose": "compute", "gbit": 200}],
    "pools": [{"name": "A800", "role": "training", "label": "pool=training"}],
}


def test_a_profile_survives_its_row() -> None:
    said = profile.read(SAID)
    assert profile.read(json.loads(json.dumps(said.to_row()))) == said
    assert profile.read({}) == profile.Profile()


@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ([], "", "table"),
        ({"color": "red"}, "color", "unknown"),
        ({"fabric": "string"}, "fabric", "choice"),
        ({"scheduler": "kueue"}, "scheduler", "choice"),
        ({"pod_mtu": 99999}, "pod_mtu", "number"),
        ({"pod_mtu": True}, "pod_mtu", "number"),
        ({"cni": "a\nb"}, "cni", "line"),
        ({"planes": [{}] * 7}, "planes", "rows"),
        ({"planes": [{"name": "ib", "purpose": "fun"}]}, "planes.0.purpose", "choice"),
        ({"planes": [{"name": "s", "purpose": "storage", "cidr": "10.0.0.300/24"}]}, "planes.0.cidr", "cidr"),
        ({"pools": [{"name": "", "role": "data"}]}, "pools.0.name", "required"),
        ({"pools": [{"name": "a", "role": "data"}] * 2}, "pools.1.name", "twice"),
        ({"pools": [{"name": "a", "role": "data", "label": "gpu"}]}, "pools.0.label", "label"),
    ],
)
def test_what_cannot_be_said_of_a_cluster_is_refused_at_its_field(wrong: object, field: str, code: str) -> None:
    with pytest.raises(profile.Bad) as bad:
        profile.read(wrong)
    assert (bad.value.field, bad.value.code) == (field, code)
    assert words.profile_text(bad.value)


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("nvidia-device-plugin-daemonset", "devices"),
        ("ascend-device-plugin-daemonset-910", "devices"),
        ("volcano-device-plugin", "devices"),
        ("nvidia-dcgm-exporter", "telling"),
        ("calico-node", "network"),
        ("kube-ovn-cni", "network"),
        ("rdma-shared-dp-ds", "network"),
        ("somebodys-log-shipper", ""),
    ],
)
def test_daemonsets_that_nodes_depend_on_are_known_by_their_usual_names(name: str, does: str) -> None:
    assert checks.daemon_of(name) == does
