"""The secrets server: a real OpenBao, sealed, restarted, its tokens run out."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvac
import pytest
from django.db import transaction

from apps.adapters.errors import InsideTransaction, NotFound, Refused, Unavailable
from apps.adapters.vault import VaultKV
from deploy.local import openbao
from tests.adapters.scripted import Exchange, scripted
from tests.needs import require

POLICY = """
path "maas/data/clusters/*" { capabilities = ["create", "read", "update"] }
path "maas/metadata/clusters/*" { capabilities = ["delete"] }
"""


@dataclass
class Bao:
    """An OpenBao of our own: `root` is its owner's client, `key` unseals it."""

    address: str
    root: Any
    key: str
    role_id: Path
    secret_id: Path

    def kv(self) -> VaultKV:
        return VaultKV(self.address, self.role_id, self.secret_id, "maas")

    def role(self, **options: str) -> None:
        self.root.auth.approle.create_or_update_approle("portal", token_policies=["portal"], **options)


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    require("openbao")
    folder = tmp_path_factory.mktemp("bao")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listener = f'listener "tcp" {{\n address = "127.0.0.1:{port}"\n tls_disable = true\n}}\n'
    (folder / "bao.hcl").write_text(f'storage "inmem" {{}}\n{listener}log_level = "error"\n')
    process = subprocess.Popen([openbao.require(), "server", f"-config={folder}/bao.hcl"], stdout=subprocess.DEVNULL)
    root = hvac.Client(f"http://127.0.0.1:{port}")
    try:
        yield _prepared(root, folder)
    finally:
        process.terminate()
        process.wait(10)


def _prepared(root: Any, folder: Path) -> Bao:
    for _ in range(100):
        try:
            made = root.sys.initialize(secret_shares=1, secret_threshold=1)
            break
        except (OSError, hvac.exceptions.VaultError):
            time.sleep(0.1)
    root.token = made["root_token"]
    root.sys.submit_unseal_key(made["keys"][0])
    root.sys.enable_secrets_engine("kv", path="maas", options={"version": "2"})
    root.sys.enable_auth_method("approle")
    root.sys.create_or_update_policy("portal", POLICY)
    one = Bao(root.url, root, made["keys"][0], folder / "role-id", folder / "secret-id")
    one.role(token_ttl="1h")
    one.role_id.write_text(root.auth.approle.read_role_id("portal")["data"]["role_id"] + "\n")
    one.secret_id.write_text(root.auth.approle.generate_secret_id("portal")["data"]["secret_id"])
    return one


def test_values_are_written_read_and_destroyed(bao: Bao) -> None:
    kv = bao.kv()
    kv.write("clusters/a", {"token": "first"})
    kv.write("clusters/a", {"token": "second", "ünïcode": "值"})
    assert kv.read("clusters/a") == {"token": "second", "ünïcode": "值"}
    kv.delete("clusters/a")
    kv.delete("clusters/a")
    with pytest.raises(NotFound):
        kv.read("clusters/a")


def test_a_policy_says_no(bao: Bao) -> None:
    with pytest.raises(Refused) as caught:
        bao.kv().read("people/a")
    assert not isinstance(caught.value, NotFound)


def test_a_token_that_died_is_replaced(bao: Bao) -> None:
    """Dead token and policy denial are the same 403; a revoked token must not look like a lost right."""
    kv = bao.kv()
    kv.write("clusters/a", {"token": "x"})
    bao.root.auth.token.revoke(kv._client.token)
    assert kv.read("clusters/a") == {"token": "x"}


def test_it_logs_in_again_before_its_token_ends(bao: Bao) -> None:
    """vault-secrets-operator#94: a renewal cannot pass the longest life, so it logs in anew."""
    bao.role(token_ttl="3s", token_max_ttl="3s")
    try:
        kv = bao.kv()
        kv.write("clusters/a", {"token": "x"})
        first = kv._client.token
        time.sleep(2.2)
        bao.root.auth.token.lookup(first)  # still alive
        kv.read("clusters/a")
        assert kv._client.token != first
    finally:
        bao.role(token_ttl="1h", token_max_ttl="1h")


def test_sealed_is_unavailable_until_unsealed(bao: Bao) -> None:
    kv = bao.kv()
    kv.write("clusters/a", {"token": "x"})
    bao.root.sys.seal()
    try:
        for one in (kv, bao.kv()):
            with pytest.raises(Unavailable) as caught:
                one.read("clusters/a")
            assert caught.value.system == "secrets"
    finally:
        bao.root.sys.submit_unseal_key(bao.key)
    for _ in range(50):
        try:
            assert kv.read("clusters/a") == {"token": "x"}
            break
        except Unavailable:
            time.sleep(0.1)
    else:
        pytest.fail("It did not come back.")


def test_our_own_credential_is_no_fault_of_the_user(bao: Bao, tmp_path: Path) -> None:
    wrong = tmp_path / "secret-id"
    for content in ("00000000-0000-0000-0000-000000000000", None):
        wrong.unlink(missing_ok=True)
        if content:
            wrong.write_text(content)
        with pytest.raises(Unavailable) as caught:
            VaultKV(bao.address, bao.role_id, wrong, "maas").read("clusters/a")
        assert caught.value.system == "secrets"


@pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "clusters/../people", "a b", "a?x", "a\n"])
def test_an_odd_path_is_refused(bao: Bao, path: str) -> None:
    with pytest.raises(ValueError):
        bao.kv().read(path)


def test_nothing_is_said_of_values(bao: Bao, caplog: pytest.LogCaptureFixture) -> None:
    def script(call: Exchange) -> None:
        login = b'{"auth": {"client_token": "t0ken", "lease_duration": 60}}'
        call.answer(200, login) if "login" in call.path else call.answer(400, {"errors": ["bad"]})

    with scripted(script) as server:
        kv = VaultKV(server.url, bao.role_id, bao.secret_id, "maas")
        with pytest.raises(Refused) as caught:
            kv.write("clusters/a", {"token": "hunter2"})
    assert "hunter2" not in f"{caught.value!r} {caplog.text} {kv!r}"


def test_a_hanging_server_is_given_up(bao: Bao, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.adapters.vault.TIMEOUT", (0.3, 0.3))
    with scripted(lambda call: time.sleep(2)) as server, pytest.raises(Unavailable):
        VaultKV(server.url, bao.role_id, bao.secret_id, "maas").read("clusters/a")


def test_no_call_inside_a_transaction(bao: Bao, db: None) -> None:
    with transaction.atomic(), pytest.raises(InsideTransaction):
        bao.kv().read("clusters/a")
