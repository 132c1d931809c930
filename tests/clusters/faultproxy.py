"""A proxy in front of an API server that does to lists and watches what networks and busy servers do.

It speaks plain HTTP to the reader and passes GETs on. What happens is drawn from seeded dice: answers late, never, cut in
the middle of a line, reset; 429 with Retry-After, 410 as an answer and inside the stream, 500; events doubled and in
another order.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET

import httpx

from apps.adapters.kubernetes import Endpoint

ANSWERS = {
    "busy": (429, "TooManyRequests", "too many requests", b"Retry-After: 1\r\n"),
    "expired": (410, "Expired", "too old resource version: 1 (2)", b""),
    "broken": (500, "InternalError", "etcdserver: request timed out", b""),
}
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class _Cut(Exception):
    """The connection is over, without a word."""


def status(name: str) -> bytes:
    code, reason, message, _ = ANSWERS[name]
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return json.dumps(body).encode()


@dataclass
class FaultProxy:
    """`answer_chance` is that of a fault for each request, `event_chance` that of one for each event."""

    target: Endpoint
    dice: random.Random
    answer_chance: float = 0.2
    event_chance: float = 0.01
    happened: Counter[str] = field(default_factory=Counter)
    events: int = 0
    lists: int = 0
    port: int = 0

    async def __aenter__(self) -> FaultProxy:
        self._http = httpx.AsyncClient(
            base_url=self.target.server, verify=self.target.tls() or False, trust_env=False,
            headers={"Authorization": f"Bearer {self.target.token_source()}", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(10, read=60), limits=httpx.Limits(max_connections=None),
        )  # fmt: skip
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._serving: set[asyncio.Task[None]] = set()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._http.aclose()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"http://127.0.0.1:{self.port}", None, self.target.token_source)

    def calm(self) -> None:
        """No more faults, and those that go on come to an end."""
        self.answer_chance = self.event_chance = 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._serving.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head.split(b" ")[1].decode(), writer)
        except _Cut:
            with suppress(OSError):  # a reset; where the reader has gone already there is nothing to reset
                writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, httpx.HTTPError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    def _strikes(self, chance: float, *faults: str) -> str:
        if self.dice.random() >= chance:
            return ""
        fault = self.dice.choice(faults)
        self.happened[fault] += 1
        return fault

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        watching = "watch=" in path
        faults = ["delay", "blackhole", "reset", "busy", "broken", *(["expired"] if watching else [])]
        match fault := self._strikes(self.answer_chance, *faults):
            case "delay":
                await asyncio.sleep(self.dice.uniform(0, 0.3))
            case "blackhole":
                await self._silence()
            case "reset":
                raise _Cut
            case "busy" | "broken" | "expired":
                body = status(fault)
                head = b"HTTP/1.1 %d Fault\r\n%bContent-Length: %d\r\n\r\n"
                writer.write(head % (ANSWERS[fault][0], ANSWERS[fault][3], len(body)) + body)
                await writer.drain()
                return
        async with self._http.stream("GET", path) as response:
            if watching and response.is_success:
                await self._watch(response, writer)
            else:
                self.lists += "limit=" in path
                body = await response.aread()
                writer.write(b"HTTP/1.1 %d Passed\r\nContent-Length: %d\r\n\r\n" % (response.status_code, len(body)))
                writer.write(body)
                await writer.drain()

    async def _watch(self, response: httpx.Response, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        held = b""
        async for line in _lines(response):
            self.events += 1
            match self._strikes(
                self.event_chance,
                "cut in a line",
                "blackhole in a stream",
                "expired in a stream",
                "late",
                "doubled",
                "swapped",
            ):
                case "cut in a line":
                    await _send(writer, line[: len(line) // 2])
                    raise _Cut
                case "blackhole in a stream":
                    await self._silence()
                case "expired in a stream":
                    await _send(writer, b'{"type":"ERROR","object":%b}\n' % status("expired"))
                    break
                case "late":
                    await asyncio.sleep(self.dice.uniform(0, 0.1))
                case "doubled":
                    line += line
                case "swapped":
                    held = line
                    continue
            await _send(writer, line + held)
            held = b""
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _silence(self) -> None:
        """Nothing more, until whoever reads has gone, or peace has come."""
        while self.answer_chance or self.event_chance:
            await asyncio.sleep(0.05)
        raise _Cut


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in response.aiter_raw():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()
