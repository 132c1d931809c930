"""Further processes in a container that runs: for `kubectl exec`, probes and hooks. Standard library only: the shim
uses it.

The shim listens on the socket `exec` in its attempt's folder. A connection is a process: one message
`{"argv": [...], "tty": bool}` comes with three open files, its stdin, stdout and stderr. The answer is `{"error": why}`
or `{"pid": n}`, and later `{"code": n}`. Whoever closes the connection before that ends the process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "exec"
LARGEST = 1 << 17  # bytes of one message: what a command line may have

Files = tuple[int, int, int]
Start = Callable[[list[str], Files, bool], tuple[int, str]]
"""Starts argv with these files, on a terminal or not; gives its pid, or why it could not be started."""


def open_socket(folder: Path, *, listen: bool) -> socket.socket:
    """The socket of an attempt, to listen or connected. Raises OSError."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        address = f"/proc/self/fd/{place}/{NAME}"  # the path itself may be longer than an address can be
        if listen:
            (folder / NAME).unlink(missing_ok=True)  # of a shim that was killed before it had started anything
            end.bind(address)
            end.listen()
        else:
            end.connect(address)
    except OSError:
        end.close()
        raise
    finally:
        os.close(place)
    return end


@dataclass
class Execs:
    """The shim's end. `asked` are connections by file number, `running` those whose process runs, by its pid."""

    listener: socket.socket
    start: Start
    asked: dict[int, socket.socket] = field(default_factory=dict)
    running: dict[int, socket.socket] = field(default_factory=dict)

    def files(self) -> list[int]:
        return [self.listener.fileno(), *self.asked]

    def take(self, file: int) -> bool:
        """Deal with a file that can be read; False if it is none of ours."""
        if file == self.listener.fileno():
            with suppress(OSError):
                connection = self.listener.accept()[0]
                self.asked[connection.fileno()] = connection
            return True
        if file not in self.asked:
            return False
        connection = self.asked[file]
        message: bytes = b""
        files: list[int] = []
        with suppress(OSError):
            message, files, _, _ = socket.recv_fds(connection, LARGEST, 3)
        try:
            if not message:
                self._left(connection)
            elif len(files) == 3:
                self._begin(connection, message, (files[0], files[1], files[2]))
        finally:
            for each in files:
                os.close(each)
        return True

    def _begin(self, connection: socket.socket, message: bytes, files: Files) -> None:
        """Whatever is asked, the container goes on."""
        try:
            order = json.loads(message)
            if not order["argv"]:
                raise ValueError("no command specified")
            pid, problem = self.start(order["argv"], files, order["tty"])
        except (ValueError, KeyError, OSError) as error:
            self._say(connection, {"error": f"failed to exec in container: {error}"})
            return
        if problem:
            self._say(connection, {"error": problem})
        else:
            self.running[pid] = connection
            self._say(connection, {"pid": pid})

    def ended(self, pid: int, status: int) -> bool:
        """Tell how a process ended; False if it is none of ours."""
        connection = self.running.pop(pid, None)
        if connection is None:
            return False
        code = os.waitstatus_to_exitcode(status)
        self._say(connection, {"code": 128 - code if code < 0 else code})
        return True

    def end(self) -> None:
        """End them all: their container has ended."""
        for pid in self.running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.listener.close()

    def _left(self, connection: socket.socket) -> None:
        for pid, other in self.running.items():
            if other is connection:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        self.asked.pop(connection.fileno(), None)
        connection.close()

    def _say(self, connection: socket.socket, document: dict[str, Any]) -> None:
        with suppress(OSError):  # it has left; what it asked for is ended where that is noticed
            connection.send(json.dumps(document).encode())
