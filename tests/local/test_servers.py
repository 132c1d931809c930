"""The servers themselves: started, asked, killed, started again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
import redis

from deploy.local import openbao, postgres, valkey
from deploy.local.home import Home
from deploy.local.servers import Running, choose
from deploy.local.stack import TREE
from deploy.local.testing import clean_env
from tests.needs import require

NAMES = ("postgres", "valkey", "openbao")


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's tmp_path: another account must be able to pass through."""
    with tempfile.TemporaryDirectory(prefix="maas-portal-servers-") as folder:
        yield Path(folder)


def running(root: Path, names: tuple[str, ...], durable: bool = False) -> Running:
    require(*names)
    home = Home(root)
    return Running(home, choose(home, names, {}, durable=durable))


@contextmanager
def vault(env: dict[str, str]) -> Iterator[httpx.Client]:
    """A client logged in as the portal."""
    credentials = {
        name: Path(env[f"VAULT_{name.upper()}_FILE"]).read_text().strip() for name in ("role_id", "secret_id")
    }
    with httpx.Client(base_url=f"{env['VAULT_ADDR']}/v1/", trust_env=False) as client:
        answer = client.post("auth/approle/login", json=credentials).raise_for_status()
        client.headers["X-Vault-Token"] = answer.json()["auth"]["client_token"]
        yield client


def test_what_was_written_is_there_after_everything_was_killed(root: Path) -> None:
    with running(root, NAMES, durable=True) as servers:
        env = servers.environ()
        with psycopg.connect(env["MIGRATE_DATABASE_URL"]) as database:
            database.execute("CREATE TABLE kept (text text)")
            database.execute("INSERT INTO kept VALUES ('训练')")
        cache = redis.Redis.from_url(env["REDIS_URL"], decode_responses=True)
        cache.config_set("appendfsync", "always")  # by itself it may lose the last second
        cache.set("kept", "训练")
        with vault(env) as client:
            client.post("maas/data/clusters/1", json={"data": {"token": "训练"}}).raise_for_status()
        for process in servers.processes.values():
            process.kill()
            process.wait()
    with running(root, NAMES, durable=True) as servers:
        assert servers.environ() == env, "addresses and passwords are chosen once"
        with psycopg.connect(env["DATABASE_URL"]) as database:
            assert database.execute("SELECT text FROM kept").fetchone() == ("训练",)
        assert redis.Redis.from_url(env["REDIS_URL"], decode_responses=True).get("kept") == "训练"
        with vault(env) as client:
            assert client.get("maas/data/clusters/1").json()["data"]["data"] == {"token": "训练"}


def test_the_app_may_use_the_owners_tables_and_change_nothing_about_them(root: Path) -> None:
    with running(root, ("postgres",)) as servers:
        env = servers.environ()
        with psycopg.connect(env["MIGRATE_DATABASE_URL"], autocommit=True) as owner:
            owner.execute("CREATE TABLE job (id bigserial PRIMARY KEY, name text)")
            owner.execute("CREATE TABLE audit (id bigserial PRIMARY KEY, action text)")
            owner.execute("REVOKE UPDATE, DELETE ON audit FROM maas_app")
            owner.execute("CREATE DATABASE test_maas")
        with psycopg.connect(env["DATABASE_URL"], autocommit=True) as app:
            for statement in ("INSERT INTO job (name) VALUES ('a')", "UPDATE job SET name = 'b'", "DELETE FROM job"):
                assert app.execute(statement).rowcount == 1
            app.execute("INSERT INTO audit (action) VALUES ('job.submit')")
            for statement in (
                "UPDATE audit SET action = ''",
                "DELETE FROM audit",
                "TRUNCATE audit",
                "DROP TABLE job",
                "ALTER TABLE audit DISABLE TRIGGER ALL",
                "CREATE TABLE mine (id int)",
                "SET ROLE maas_owner",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    app.execute(statement)
            settings = {name: app.execute(f"SHOW {name}").fetchone() for name in ("timezone", "server_encoding")}
            assert settings == {"timezone": ("UTC",), "server_encoding": ("UTF8",)}


def test_a_database_made_later_has_the_same_rights(root: Path) -> None:
    with running(root, ("postgres",)) as servers:
        env = servers.environ()
        with psycopg.connect(env["MIGRATE_DATABASE_URL"], autocommit=True) as owner:
            owner.execute("CREATE DATABASE test_maas")
        with psycopg.connect(env["MIGRATE_DATABASE_URL"], dbname="test_maas", autocommit=True) as owner:
            owner.execute("CREATE TABLE job (id bigserial PRIMARY KEY)")
            owner.execute("SET ROLE maas_app")
            owner.execute("INSERT INTO job DEFAULT VALUES")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute("DROP TABLE job")


def test_the_portal_reaches_its_own_secrets_and_nothing_else(root: Path) -> None:
    with running(root, ("openbao",)) as servers, vault(servers.environ()) as client:
        client.post("maas/data/clusters/1", json={"data": {"token": "t"}}).raise_for_status()
        assert client.get("sys/mounts").status_code == 403
        assert client.post("sys/seal").status_code == 403
        assert client.post("auth/approle/role/maas-portal/secret-id").status_code == 403
        other = servers.environ() | {"VAULT_SECRET_ID_FILE": str(servers.home.write_secret("wrong", "guess"))}
        with pytest.raises(httpx.HTTPStatusError), vault(other):
            pass


def test_secrets_are_readable_by_their_owner_alone(root: Path) -> None:
    with running(root, NAMES):
        private = [root / "ports.json", root / "valkey.conf", *(root / "secrets").iterdir()]
        assert {oct(path.stat().st_mode & 0o777) for path in private} == {"0o600"}
        assert oct((root / "secrets").stat().st_mode & 0o777) == "0o700"
        assert not (root / "postgres.password").exists()


def test_a_lock_file_of_a_power_cut_does_not_stop_the_start(root: Path) -> None:
    with running(root, ("postgres",)) as servers:
        servers.processes["postgres"].kill()
        servers.processes["postgres"].wait()
        lock = root / "postgres" / "postmaster.pid"
        lines = lock.read_text().splitlines()
    # The pid is somebody else's by now, under the same account: PostgreSQL alone would take it for a server.
    owner = lock.stat()
    bystander = subprocess.Popen(["sleep", "60"], user=owner.st_uid, group=owner.st_gid)
    try:
        lock.write_text("\n".join([str(bystander.pid), *lines[1:]]) + "\n")
        with running(root, ("postgres",)) as servers, psycopg.connect(servers.environ()["DATABASE_URL"]) as app:
            assert app.execute("SELECT 1").fetchone() == (1,)
    finally:
        bystander.kill()
        bystander.wait()


def test_a_port_that_was_taken_meanwhile_is_given_up(root: Path) -> None:
    home = Home(root)
    home.prepare()
    first = home.claim_ports("valkey", web=20_000)
    assert home.claim_ports("valkey", web=20_000) == first
    with socket.create_server(("127.0.0.1", first["valkey"])):
        second = home.claim_ports("valkey", web=20_000)
    assert second["valkey"] != first["valkey"]
    assert second["web"] == first["web"]


def test_the_wheels_do_where_no_server_is_installed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (postgres, valkey, openbao):
        monkeypatch.setattr(module, "installed", lambda *names, **folders: [])
    with running(root, NAMES) as servers, psycopg.connect(servers.environ()["DATABASE_URL"]) as app:
        (version,) = app.execute("SHOW server_version").fetchone()
        assert version.startswith("18.")
        assert all("site-packages" in str(_binary(each)) for each in servers.processes.values())


def _binary(process: subprocess.Popen[bytes]) -> Path:
    return Path(f"/proc/{process.pid}/exe").readlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="shows what differs as root")
def test_servers_run_for_an_unprivileged_user_too() -> None:
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="maas-portal-nobody-") as folder:
        os.chown(folder, 65534, 65534)
        command = [_python_for_others(), "-m", "deploy.local.with_servers", f"--dir={folder}/s", "--with=openbao", "--"]
        command += ["sh", "-c", 'test -n "$DATABASE_URL" -a -n "$REDIS_URL" -a -n "$VAULT_ADDR" && id -u']
        env = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONPATH": sysconfig.get_path("platlib")}
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(command, cwd=TREE, env=env, capture_output=True, text=True, **nobody)
        assert (done.returncode, done.stdout, done.stderr) == (0, "65534\n", "")
        assert {path.stat().st_uid for path in Path(folder).rglob("*")} == {65534}


def _python_for_others() -> str:
    """An interpreter of this version that nobody may run; root's own may be in root's folder."""
    for each in (sys.executable, shutil.which("python3.11", path="/usr/bin:/usr/local/bin")):
        if each and _runs_as_nobody(each):
            return each
    pytest.skip("no Python 3.11 here that an unprivileged user may run")


def _runs_as_nobody(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", ""], cwd="/", user=65534, group=65534, extra_groups=[]).returncode == 0
    except PermissionError:
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="shows what differs as root")
def test_root_may_keep_the_data_where_no_other_account_can_go() -> None:
    with tempfile.TemporaryDirectory(prefix="maas-portal-private-") as folder:  # 0700
        root = Path(folder) / "demo"
        with running(root, ("postgres",)) as servers, psycopg.connect(servers.environ()["DATABASE_URL"]) as app:
            assert app.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("code", [0, 7])
def test_with_servers_passes_on_the_commands_exit_code(code: int, root: Path) -> None:
    command = [sys.executable, "-m", "deploy.local.with_servers", f"--dir={root}", "--", "sh", "-c", f"exit {code}"]
    assert subprocess.run(command, cwd=TREE, env=clean_env()).returncode == code
