"""`/exec/NAMESPACE/POD/CONTAINER` of a kubelet over WebSocket, in the protocols v4 and v5.channel.k8s.io.

The first byte of each message is its channel: stdin, stdout, stderr, error (a Status at the end), size of the terminal.
In v5 a message on channel 255 names a channel that the client has closed.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import struct
import termios
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from apps.localcluster.nodeagent import execute, pipes
from apps.localcluster.nodeagent.execute import ExecError

Object = dict[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


@dataclass(frozen=True)
class Wish:
    """What is to be run, and which of its streams are wanted."""

    command: list[str]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def read(cls, query: str) -> Wish:
        """Raises ValueError."""
        values = parse_qs(query, keep_blank_values=True)
        stdin, stdout, stderr, tty = (values.get(name, [""])[-1] == "1" for name in ("input", "output", "error", "tty"))
        if not (stdin or stdout or stderr):
            raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
        return cls(values.get("command", []), stdin, stdout, stderr and not tty, tty)


def protocol(offered: list[str]) -> str | None:
    """The best of what a client offers."""
    return next((each for each in (V5, V4) if each in offered), None)


def ending(code: int) -> Object:
    """The Status of a process that ran to its end."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(text: str) -> Object:
    """The Status of one that could not be started."""
    text = f"error executing command in container: {text}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {text}",
        "reason": "InternalError",
        "details": {"causes": [{"message": text}]},
        "code": 500,
    }


@dataclass
class Session:
    """One accepted connection. `ours` are the ends that are open here, `terminal` one of them."""

    wish: Wish
    receive: Receive
    send: Send
    stdin: int = -1
    terminal: int = -1
    ours: list[int] = field(default_factory=list)
    copied: int = 0
    sending: int = 0

    async def run(self, folder: Path) -> None:
        """Run the command and tell how it ended. A client that leaves ends it."""
        await self._say(STDOUT if self.wish.stdout else STDERR if self.wish.stderr else ERROR, b"")
        theirs, outputs = self._terminal() if self.wish.tty else self._pipes()
        try:
            try:
                async with execute.process(folder, self.wish.command, theirs, self.wish.tty) as started:
                    _close(theirs)
                    theirs = ()
                    code = await self._attend(started, outputs)
            finally:
                _close((*theirs, *self.ours))
            if code is None:
                return
            status = ending(code)
        except ExecError as error:
            status = failure(str(error))
        await self._say(ERROR, json.dumps(status).encode())
        await self.send({"type": "websocket.close", "code": 1000})

    def _pipes(self) -> tuple[tuple[int, ...], dict[int, int]]:
        """The process's three files, and what is to be copied to which channel, by file."""
        wish, theirs, outputs = self.wish, [], {}
        for channel, wanted in ((STDIN, wish.stdin), (STDOUT, wish.stdout), (STDERR, wish.stderr)):
            if not wanted:
                theirs.append(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC))
                continue
            read, write = os.pipe()
            own, their = (write, read) if channel == STDIN else (read, write)
            theirs.append(their)
            self.ours.append(own)
            if channel == STDIN:
                self.stdin = own
            else:
                outputs[own] = channel
        return tuple(theirs), outputs

    def _terminal(self) -> tuple[tuple[int, ...], dict[int, int]]:
        """The same with a terminal, whose output is all of it stdout."""
        self.terminal, their = os.openpty()
        self.ours.append(self.terminal)
        if self.wish.stdin:
            self.stdin = self.terminal
        return (their, os.dup(their), os.dup(their)), {self.terminal: STDOUT}

    async def _attend(self, started: execute.Process, outputs: dict[int, int]) -> int | None:
        """Carry bytes both ways; the exit code, None if the client has left."""
        copies = {asyncio.create_task(self._copy(channel, file)) for file, channel in outputs.items()}
        listening, waiting = asyncio.create_task(self._listen()), asyncio.create_task(started.wait())
        try:
            await asyncio.wait({listening, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return None
            left = copies
            while left:  # what was written is told; what a child in the background may write is not waited for
                before = self.copied
                left = (await asyncio.wait(left, timeout=execute.LINGER))[1]
                if self.copied == before and not self.sending:
                    break
            return await waiting
        finally:
            tasks = {*copies, listening, waiting}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _copy(self, channel: int, file: int) -> None:
        async for data in pipes.pieces(file):
            self.sending += 1
            await self._say(channel, data)
            self.sending -= 1
            self.copied += 1

    async def _listen(self) -> None:
        """Take what the client sends until it leaves."""
        while (message := await self.receive())["type"] != "websocket.disconnect":
            data: bytes = message.get("bytes") or (message.get("text") or "").encode()
            channel, rest = data[:1], data[1:]
            if channel == bytes([STDIN]) and self.stdin >= 0:
                await pipes.write(self.stdin, rest)
            elif channel == bytes([RESIZE]) and self.terminal >= 0:
                self._resize(rest)
            elif data == bytes([CLOSE, STDIN]) and self.stdin >= 0 and not self.wish.tty:
                self.ours.remove(self.stdin)
                os.close(self.stdin)
                self.stdin = -1

    def _resize(self, text: bytes) -> None:
        try:
            size = json.loads(text)
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        except (ValueError, KeyError, TypeError, struct.error, OSError):
            pass  # not a size: the terminal keeps the one it has

    async def _say(self, channel: int, data: bytes) -> None:
        await self.send({"type": "websocket.send", "bytes": bytes([channel]) + data})


def _close(files: tuple[int, ...]) -> None:
    for file in files:
        os.close(file)
