"""Registering clusters, and reaching them with a credential from the secrets server."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.adapters.errors import Unavailable
from apps.audit.models import Entry
from apps.audit.services import Denied
from apps.clusters import services
from apps.clusters.models import Cluster
from apps.clusters.services import connect as connecting
from tests import factories
from tests.adapters.scripted import Exchange, scripted


def registration(**values: str) -> services.Registration:
    return services.Registration(**({"slug": "train-b", "name": "Train B", "server": "https://10.0.0.1:6443"} | values))


def test_an_operator_registers_and_it_is_recorded(world: factories.World) -> None:
    cluster = services.register_cluster(world.actor(Role.OPERATOR), registration())
    services.register_cluster(Actor.system("seed"), registration(name="Train B2", server="https://10.0.0.2:6443/"))
    cluster.refresh_from_db()
    assert (cluster.name, cluster.server, cluster.credential_path) == (
        "Train B2",
        "https://10.0.0.2:6443",
        "clusters/train-b",
    )
    entries = Entry.objects.filter(action="cluster.registered").order_by("id")
    assert [(e.result, e.params["server"]) for e in entries] == [
        ("done", "https://10.0.0.1:6443"),
        ("done", cluster.server),
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("role", [role for role in Role if role is not Role.OPERATOR])
def test_nobody_else_may_and_that_is_recorded_too(role: Role) -> None:
    world = factories.World.make()
    with pytest.raises(Denied):
        services.register_cluster(world.actor(role), registration())
    assert not Cluster.objects.filter(slug="train-b").exists()
    assert Entry.objects.get(action="cluster.registered").result == "refused"


@pytest.mark.parametrize(
    "values",
    [
        {"server": "10.0.0.1:6443"},
        {"server": "https://10.0.0.1:6443/api"},
        {"server": "ftp://10.0.0.1"},
        {"server": "http://10.0.0.1:8080"},  # a token must not travel in the clear
        {"ca_pem": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"},
        {"server": "https://[::1"},
        {"server": "https://h:port"},
        {"server": "https://admin:word@10.0.0.1:6443"},  # it would be shown to whoever may see the cluster
        {"ca_pem": "证书"},
        {"slug": "Train B"},
        {"slug": "../x"},
        {"name": "x" * 81},
    ],
)
def test_what_cannot_be_a_cluster_is_refused(db: None, values: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        services.register_cluster(Actor.system("seed"), registration(**values))
    assert not Cluster.objects.exists()


@pytest.fixture
def vault(secrets_server: None) -> Any:
    return connecting.vault()


@pytest.mark.django_db(transaction=True)
def test_the_command_stores_the_token_where_only_the_adapter_finds_it(vault: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")

    def script(call: Exchange) -> None:
        call.answer(200, {"gitVersion": call.headers["Authorization"]})

    with scripted(script) as server:
        out = StringIO()
        arguments = ["--slug", "train-c", "--server", server.url, "--unchecked", "--token-file", str(token)]
        call_command("register_cluster", *arguments, stdout=out)
        assert "first" not in out.getvalue()
        cluster = Cluster.objects.get(slug="train-c")
        assert "first" not in str(Entry.objects.values_list("params", flat=True))
        assert connecting.connect(cluster) is connecting.connect(Cluster.objects.get(slug="train-c"))
        assert connecting.connect(cluster).version() == "Bearer first"
        token.write_text("second")
        call_command("register_cluster", *arguments, stdout=out)
        assert connecting.connect(cluster).version() == "Bearer first"  # kept for a minute, or until refused
    (tmp_path / "der").write_bytes(b"\x30\x82\xff")
    for wrong in ("none", "der"):
        with pytest.raises(CommandError):
            call_command("register_cluster", *arguments[:-1], str(tmp_path / wrong))


def test_a_rotated_credential_is_seen_within_a_minute(vault: Any) -> None:
    now = [0.0]
    vault.write("clusters/rotated", {"token": "a"})
    credential = connecting.Credential("clusters/rotated", clock=lambda: now[0])
    assert credential() == "a"
    vault.write("clusters/rotated", {"token": "b"})
    now[0] = 59.0
    assert (credential(), credential(fresh=True)) == ("a", "b")
    vault.write("clusters/rotated", {"token": "c"})
    now[0] = 125.0
    assert credential() == "c"


@pytest.mark.parametrize("values", [None, {"token": ""}, {"other": "x"}])
def test_a_missing_credential_is_nobodys_fault_but_ours(vault: Any, values: dict[str, str] | None) -> None:
    vault.delete("clusters/lost")
    if values is not None:
        vault.write("clusters/lost", values)
    with pytest.raises(Unavailable) as caught:
        connecting.Credential("clusters/lost")()
    assert caught.value.system == "secrets"
