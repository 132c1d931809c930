"""Keeping programs running: a supervisord of our own, and what one asks of it."""

from __future__ import annotations

import http.client
import shlex
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults, SupervisorTransport

from deploy.local.home import Home, write_private
from deploy.local.program import Failed, NotReady, Program, dying_with_parent, tail, wait_until

GONE = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")

MAIN = """\
[supervisord]
logfile = {home}/log/supervisord.log
logfile_maxbytes = 1MB
logfile_backups = 1
loglevel = info
pidfile = {home}/run/supervisord.pid
childlogdir = {home}/log
strip_ansi = true
umask = 077

[unix_http_server]
file = {socket}
chmod = 0600

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""

# A process that is killed is started anew at once; one that keeps failing gets `startretries` more tries, each a
# second later than the one before, then whoever watches decides (demo.py tries again and says so).
ONE = """
[program:{name}]
command = {command}
directory = {directory}
environment = {environment}
autostart = false
autorestart = true
startsecs = 2
startretries = 3
stopsignal = {stop_signal}
stopwaitsecs = {stop_seconds}
stopasgroup = false
killasgroup = true
redirect_stderr = true
stdout_logfile = {log}
stdout_logfile_maxbytes = 5MB
stdout_logfile_backups = 2
"""


class Supervisor:
    def __init__(self, home: Home, directory: Path) -> None:
        """`directory`: where the programs run, the folder of the source tree."""
        self.home = home
        self.directory = directory
        self.socket = home.socket_path("supervisor.sock")

    def log(self, name: str) -> Path:
        return self.home.root / "log" / f"{name}.log"

    # --- the daemon -------------------------------------------------------------------------------------------------

    def configure(self, programs: Iterable[Program]) -> None:
        """Writes the configuration: 0600, as it holds the programs' secrets."""
        parts = [MAIN.format(home=_literal(str(self.home.root)), socket=_literal(str(self.socket)))]
        parts += [
            ONE.format(
                name=each.name,
                command=_literal(shlex.join(each.command)),
                directory=_literal(str(self.directory)),
                environment=",".join(f'{key}="{_literal(value)}"' for key, value in each.env.items()),
                stop_signal=each.stop_signal,
                stop_seconds=each.stop_seconds,
                log=_literal(str(self.log(each.name))),
            )
            for each in programs
        ]
        write_private(self.configuration, "".join(parts))

    @property
    def configuration(self) -> Path:
        return self.home.root / "supervisord.conf"

    def launch(self, env: dict[str, str]) -> subprocess.Popen[bytes]:
        """Starts the daemon with exactly this environment. It ends when this process does. Raises Failed."""
        command = (sys.executable, "-m", "supervisor.supervisord", "--nodaemon", "-c", str(self.configuration))
        with self.log("supervisord-start").open("wb") as log:
            daemon = subprocess.Popen(
                dying_with_parent("TERM", command),
                env=env,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the one in the foreground, which ends the rest in order
            )

        def alive() -> None:
            if daemon.poll() is not None:
                raise Failed(f"supervisord ended with exit code {daemon.returncode}:\n{tail(Path(log.name))}")

        wait_until(self._answers, seconds=10, still=alive)
        return daemon

    def running(self) -> bool:
        try:
            self._answers()
        except NotReady:
            return False
        return True

    def _answers(self) -> None:
        try:
            with self._remote() as remote:
                remote.getState()
        except (OSError, http.client.HTTPException) as error:
            raise NotReady(f"supervisord does not answer: {error}") from error

    @contextmanager
    def _remote(self) -> Iterator[Any]:
        """A connection for one conversation: the transport serves one thread at a time."""
        transport = SupervisorTransport(serverurl=f"unix://{self.socket}")
        try:
            yield xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport).supervisor
        finally:
            transport.close()

    # --- its programs -----------------------------------------------------------------------------------------------

    def states(self) -> dict[str, dict[str, Any]]:
        """By name: `statename`, `pid`, `start`, `description`, as supervisord gives them."""
        with self._remote() as remote:
            return {each["name"]: each for each in remote.getAllProcessInfo()}

    def start(self, name: str) -> None:
        with self._remote() as remote:
            try:
                remote.startProcess(name, False)
            except xmlrpc.client.Fault as fault:
                if fault.faultCode != Faults.ALREADY_STARTED:
                    raise Failed(f"{name} cannot be started: {fault.faultString}") from fault

    def await_ready(self, program: Program, seconds: float) -> None:
        """Waits until it answers; one without a check, until it has been up for `startsecs`.

        Raises Failed with the end of its log.
        """

        def alive() -> None:
            state = self.states()[program.name]
            if state["statename"] in ("FATAL", "EXITED", "STOPPED"):
                raise NotReady(state["description"] or state["statename"].lower())

        def up() -> None:
            state = self.states()[program.name]["statename"]
            if state != "RUNNING":
                raise NotReady(state.lower())

        try:
            wait_until(program.check or up, seconds, still=alive)
        except NotReady as error:
            log = self.log(program.name)
            raise Failed(f"{program.label} does not answer: {error}\n  the end of {log}:\n{tail(log)}") from error

    def stop(self, names: Iterable[str], seconds: float) -> list[str]:
        """Asks these to end, all at once, and waits; gives the names of those still there after `seconds`."""
        wanted = set(names)
        with self._remote() as remote:
            for name in wanted:
                try:
                    remote.stopProcess(name, False)
                except xmlrpc.client.Fault:
                    pass  # it is not running

        def all_gone() -> None:
            left = sorted(n for n, state in self.states().items() if n in wanted and state["statename"] not in GONE)
            if left:
                raise NotReady(",".join(left))

        try:
            wait_until(all_gone, seconds)
        except NotReady as left:
            return str(left).split(",")
        return []

    def shutdown(self) -> None:
        """Ends the daemon and, with it, what still runs."""
        try:
            with self._remote() as remote:
                remote.shutdown()
        except (OSError, http.client.HTTPException):
            pass  # it is gone already


def _literal(text: str) -> str:
    """supervisord expands %(name)s in values."""
    return text.replace("%", "%%")
