"""The secrets server: a real OpenBao, sealed, restarted, its tokens run out."""

from __future__ import annotations

import socket
import subprocess
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvac
import pytest
from django.db import transaction

from apps.adapters.errors import InsideTransaction, NotFound, Refused, Unavailable
from apps.adapters.letterbox import Letterbox
from apps.adapters.vault import Lent, VaultKV
from deploy.local import openbao
from tests.adapters.scripted import Exchange, scripted
from tests.needs import require

POLICY = f"""
path "maas/data/clusters/*" {{ capabilities = ["create", "read", "update"] }}
path "maas/metadata/clusters/*" {{ capabilities = ["delete"] }}
{openbao.POLICY[openbao.POLICY.index("# What tenants entered") :]}
"""


CANARY = "hunter2"


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

    def letterbox(self) -> Letterbox:
        """The slot, with the role of web processes."""
        self.root.auth.approle.create_or_update_approle("entry", token_policies=["entry"], token_ttl="1h")
        names = [self.role_id.with_name(f"entry-{what}-id") for what in ("role", "secret")]
        names[0].write_text(self.root.auth.approle.read_role_id("entry")["data"]["role_id"])
        names[1].write_text(self.root.auth.approle.generate_secret_id("entry")["data"]["secret_id"])
        return Letterbox(self.address, *names, "maas")

    def sealed(self) -> AbstractContextManager[None]:
        return _sealed(self)

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


@contextmanager
def _sealed(bao: Bao) -> Iterator[None]:
    bao.root.sys.seal()
    try:
        yield
    finally:
        bao.root.sys.submit_unseal_key(bao.key)
        for _ in range(50):
            if isinstance(bao.root.sys.read_health_status(method="GET"), dict):  # a raw response while it is no
                break
            time.sleep(0.1)


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
    root.sys.create_or_update_policy("entry", openbao.ENTRY_POLICY)
    root.write_data(f"auth/token/roles/{openbao.TOKEN_ROLE}", data=openbao.LENT)
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
    with bao.sealed():
        for one in (kv, bao.kv()):
            with pytest.raises(Unavailable) as caught:
                one.read("clusters/a")
            assert caught.value.system == "secrets"
    assert kv.read("clusters/a") == {"token": "x"}


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


# --- tokens lent for one piece of work --------------------------------------------------------------------------------


@pytest.fixture
def stored(bao: Bao) -> Letterbox:
    """Two versions of a secret of tenant 1 and one of tenant 2, and a policy for each."""
    box = bao.letterbox()
    assert box.put("tenants/1/5", {"token": "old"}) + 1 == box.put("tenants/1/5", {"token": "new"})
    box.put("tenants/2/6", {"token": "theirs"})
    for tenant in (1, 2):
        bao.kv().put_policy(
            f"maas-tenant-{tenant}", f'path "maas/data/tenants/{tenant}/*" {{ capabilities = ["read"] }}'
        )
    return box


def lend(kv: VaultKV, tenant: int = 1) -> Lent:
    return kv.lend(openbao.TOKEN_ROLE, [f"maas-tenant-{tenant}"], {"subject": "job:1"})


def test_a_lent_token_reads_its_tenant_and_no_other(bao: Bao, stored: Letterbox) -> None:
    kv = bao.kv()
    lent = lend(kv)
    newest = bao.root.secrets.kv.v2.read_secret_metadata("tenants/1/5", mount_point="maas")["data"]["current_version"]
    assert kv.read_as(lent, "tenants/1/5", newest) == {"token": "new"}
    assert kv.read_as(lent, "tenants/1/5", newest - 1) == {"token": "old"}
    for foreign in ("tenants/2/6", "clusters/a", "tenants/15/1"):
        with pytest.raises(Refused) as caught:
            kv.read_as(lent, foreign, 1)
        assert not isinstance(caught.value, NotFound), foreign
    with pytest.raises(NotFound):
        kv.read_as(lent, "tenants/1/5", newest + 1)
    assert lent.token not in repr(lent)


def test_the_portal_itself_reads_nothing_that_tenants_entered(bao: Bao, stored: Letterbox) -> None:
    with pytest.raises(Refused):
        bao.kv().read("tenants/1/5")


def test_only_policies_of_tenants_are_lent(bao: Bao) -> None:
    with pytest.raises(Refused):
        bao.kv().lend(openbao.TOKEN_ROLE, ["portal"], {})


def test_a_lent_token_ends_when_it_is_revoked_and_not_with_our_own(bao: Bao, stored: Letterbox) -> None:
    kv = bao.kv()
    lent = lend(kv)
    bao.root.auth.token.revoke(kv._client.token)
    assert kv.renew(lent.accessor) == lent.seconds == 3600
    kv.revoke(lent.accessor)
    kv.revoke(lent.accessor)
    with pytest.raises(NotFound):
        kv.renew(lent.accessor)
    with pytest.raises(Refused):
        kv.read_as(lent, "tenants/1/5", 1)


def test_a_missing_right_does_not_pass_for_a_token_that_is_over(bao: Bao) -> None:
    kv = bao.kv()
    lent = lend(kv)
    bao.root.sys.create_or_update_policy("portal", POLICY.replace("revoke-accessor", "another"))
    try:
        with pytest.raises(Refused):
            kv.revoke(lent.accessor)
    finally:
        bao.root.sys.create_or_update_policy("portal", POLICY)


# --- the slot of web processes ----------------------------------------------------------------------------------------


def test_nothing_comes_out_of_the_letterbox(bao: Bao, stored: Letterbox) -> None:
    """Its role reads neither what it stored nor a cluster's credential."""
    own = hvac.Client(bao.address, token=stored._login())
    for path in ("tenants/1/5", "clusters/a"):
        with pytest.raises(hvac.exceptions.Forbidden):
            own.secrets.kv.v2.read_secret_version(path, mount_point="maas", raise_on_deleted_version=True)
    with pytest.raises(Refused):
        stored.put("clusters/a", {"token": "x"})


def test_the_letterbox_outlives_its_token(bao: Bao, stored: Letterbox) -> None:
    first = stored._login()
    bao.root.auth.token.revoke(first)
    assert stored.put("tenants/1/5", {"token": "x"}) > 1
    assert stored._login() != first


def test_the_letterbox_says_nothing_of_values(bao: Bao, caplog: pytest.LogCaptureFixture) -> None:
    box = bao.letterbox()
    with bao.sealed(), pytest.raises(Unavailable) as sealed:
        box.put("tenants/1/5", {"token": CANARY})
    assert (sealed.value.code, sealed.value.system) == (503, "secrets")

    def quoting(call: Exchange) -> None:
        login = b'{"auth": {"client_token": "t0ken", "lease_duration": 60}}'
        call.answer(200, login) if "login" in call.path else call.answer(400, {"errors": [f"bad: {CANARY}"]})

    with scripted(quoting) as server, pytest.raises(Refused) as refused:
        Letterbox(server.url, box._role_id_file, box._secret_id_file, "maas").put("tenants/1/5", {"token": CANARY})
    with pytest.raises(Unavailable) as away:
        Letterbox("http://127.0.0.1:1", box._role_id_file, box._secret_id_file, "maas").put(
            "tenants/1/5", {"a": CANARY}
        )
    for caught in (sealed, refused, away):
        assert CANARY not in "".join(traceback.format_exception(caught.value)) + caplog.text
    assert away.value.__suppress_context__
