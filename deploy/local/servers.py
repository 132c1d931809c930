"""PostgreSQL, Valkey and OpenBao for one folder: by address where the environment names one, else started here."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from deploy.local.home import Home
from deploy.local.openbao import OpenBao
from deploy.local.postgres import Postgres
from deploy.local.program import Failed, NotReady, Program, tail, wait_until
from deploy.local.valkey import Valkey

ADDRESSED_BY = {"postgres": "DATABASE_URL", "valkey": "REDIS_URL", "openbao": "VAULT_ADDR"}
START_SECONDS = 90


class Server(Protocol):
    """One of them: prepared, started by somebody, then settled (roles, mounts) each time it has come up."""

    name: str
    label: str

    def prepare(self) -> Program: ...
    def settle(self) -> None: ...
    def environ(self) -> dict[str, str]: ...


def choose(home: Home, names: Iterable[str], given: Mapping[str, str], *, durable: bool) -> list[Server]:
    """Those of `names` that have to be started, because `given` (an environment) has no address for them."""
    kinds: dict[str, type[Postgres] | type[Valkey] | type[OpenBao]]
    kinds = {"postgres": Postgres, "valkey": Valkey, "openbao": OpenBao}
    return [kinds[name](home, durable=durable) for name in names if not given.get(ADDRESSED_BY[name])]


def claim_ports(home: Home, servers: Iterable[Server], *more: str, **wanted: int) -> dict[str, int]:
    """Ports for the servers and for `more`, as Home.claim_ports."""
    names = [name for server in servers for name in _port_names(server)]
    return home.claim_ports(*names, *more, **wanted)


def _port_names(server: Server) -> tuple[str, ...]:
    return (server.name, f"{server.name}-cluster") if server.name == "openbao" else (server.name,)


class Running:
    """Servers as children of this process, for the length of a `with`. Nothing is left running behind it."""

    def __init__(self, home: Home, servers: list[Server]) -> None:
        self.home = home
        self.servers = servers
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.home.prepare()
        claim_ports(self.home, self.servers)
        try:
            with ThreadPoolExecutor(max_workers=len(self.servers) or 1) as pool:
                programs = list(pool.map(lambda server: server.prepare(), self.servers))
                # Started by this thread: a child dies with the thread that started it, not only with the process.
                for program in programs:
                    self._start(program)
                list(pool.map(self._bring_up, self.servers, programs))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def environ(self) -> dict[str, str]:
        return {key: value for server in self.servers for key, value in server.environ().items()}

    def log(self, name: str) -> Path:
        return self.home.root / "log" / f"{name}.log"

    def stop(self) -> None:
        for name, process in self.processes.items():
            process.send_signal(signal.SIGINT if name == "postgres" else signal.SIGTERM)
        deadline = time.monotonic() + 10
        for process in self.processes.values():
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def _start(self, program: Program) -> None:
        with self.log(program.name).open("ab") as log:
            self.processes[program.name] = subprocess.Popen(
                program.command,
                env={**os.environ, **program.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the command we run, and then for us
            )

    def _bring_up(self, server: Server, program: Program) -> None:
        process = self.processes[program.name]

        def alive() -> None:
            if process.poll() is not None:
                end = tail(self.log(program.name))
                raise Failed(f"{program.label} ended with exit code {process.returncode}:\n{end}")

        assert program.check is not None, "servers are asked, not only watched"
        try:
            wait_until(program.check, START_SECONDS, still=alive)
        except NotReady as error:
            end = tail(self.log(program.name))
            raise Failed(f"{program.label} did not answer in {START_SECONDS} s ({error}):\n{end}") from error
        server.settle()
