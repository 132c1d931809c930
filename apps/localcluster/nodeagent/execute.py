"""The agent's end of `execs`: processes started in containers that run."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.localcluster.nodeagent import pipes
from apps.localcluster.nodeagent.execs import LARGEST, open_socket

KILLED = 137
LINGER = 0.2  # seconds for the rest of the output of a process that has ended


class ExecError(Exception):
    """A process could not be started; the text says why."""


@dataclass(frozen=True)
class Process:
    """One that runs."""

    connection: socket.socket

    async def wait(self) -> int:
        """Its exit code; 137 where it was ended with its container."""
        answer = await _answer(self.connection)
        return int(answer["code"]) if answer else KILLED


async def _answer(connection: socket.socket) -> dict[str, Any] | None:
    try:
        data = await asyncio.get_running_loop().sock_recv(connection, LARGEST)
    except OSError:
        return None
    return dict(json.loads(data)) if data else None


@asynccontextmanager
async def process(folder: Path, argv: Sequence[str], files: Sequence[int], tty: bool = False) -> AsyncIterator[Process]:
    """A process in the container whose attempt has this folder; it is ended with the block. Raises ExecError.

    `files` are what its stdin, stdout and stderr are to be; they may be closed once the block has begun.
    """
    message = json.dumps({"argv": list(argv), "tty": tty}).encode()
    if len(message) > LARGEST:
        raise ExecError("failed to exec in container: argument list too long")
    try:
        connection = open_socket(folder, listen=False)
    except OSError as error:
        raise ExecError("container is not running") from error
    try:
        connection.setblocking(False)
        try:
            socket.send_fds(connection, [message], list(files))
        except OSError as error:
            raise ExecError(f"failed to exec in container: {error.strerror}") from error
        answer = await _answer(connection)
        if answer is None or "error" in answer:
            raise ExecError(answer["error"] if answer else "container is not running")
        yield Process(connection)
    finally:
        connection.close()


async def output(folder: Path, argv: Sequence[str], limit: int) -> tuple[int, str]:
    """Run a command to its end; its exit code and the first `limit` bytes it printed. Raises ExecError."""
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    read, write = os.pipe()
    kept = bytearray()
    copying = asyncio.create_task(_collect(read, kept, limit))
    try:
        async with process(folder, argv, (null, write, write)) as started:
            os.close(write)
            write = -1
            code = await started.wait()
            await asyncio.wait({copying}, timeout=LINGER)  # something it left behind may still hold the pipe
            return code, kept.decode(errors="replace")
    finally:
        copying.cancel()
        await asyncio.wait({copying})
        for file in (null, read, write):
            if file >= 0:
                os.close(file)


async def _collect(file: int, kept: bytearray, limit: int) -> None:
    """Keep the beginning of what comes; the rest is read and dropped."""
    async for data in pipes.pieces(file):
        kept += data[: limit - len(kept)]
