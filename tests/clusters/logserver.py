"""A server of one pod's log that behaves as badly as real ones: cuts, early ends, whole-second resumes, rotation."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
UNKNOWN = {
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
    "message": "the server could not find the requested resource ( pods/log p)",
    "details": {"name": "p", "kind": "pods/log"},
}  # fmt: skip


def stamp(ns: int, *, trimmed: bool = True) -> str:
    """As Go prints it, trailing zeros trimmed; a kubelet has them (`trimmed` False)."""
    seconds = datetime.fromtimestamp(ns // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f"{ns % SECOND:09d}"
    if not trimmed:
        return f"{seconds}.{fraction}Z"
    fraction = fraction.rstrip("0")
    return f"{seconds}.{fraction}Z" if fraction else f"{seconds}Z"


@dataclass
class Log:
    """What one run of a container has written; `ended` when no more will come."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    ended: bool = False
    trimmed: int = 0
    """Lines that rotation has taken away."""

    def write(self, ns: int, text: bytes) -> None:
        self.lines.append((ns, text))


@dataclass
class LogServer:
    """Serves `runs[-1]`, and `runs[-2]` as the previous one. `dice` decides on cuts and ends; None never does."""

    runs: list[Log] = field(default_factory=lambda: [Log()])
    dice: random.Random | None = None
    cut_chance: float = 0.0
    silent: bool = False
    deaths: list[float] = field(default_factory=list)
    """The node dies after these parts of the next answers: the API server then ends them as if that were all."""
    unknown: int = 0
    """How often yet the node, just started, knows no pods."""
    pod_outages: int = 0
    """How often yet the API server has no answer about the pod itself."""
    requests: int = 0
    cuts: int = 0
    port: int = 0
    trimmed: bool = False
    """Whether the zeros at the end of a time are left out."""
    uid: str = "uid"
    born: int = START - 60 * SECOND
    """The pod that has the name now: its uid and when it was made (ns)."""

    async def __aenter__(self) -> LogServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                address = urlsplit(head.split(b" ")[1].decode())
                if not address.path.endswith("/log"):
                    await self._pod(writer)
                    continue
                await self._answer(parse_qs(address.query), writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async def _pod(self, writer: asyncio.StreamWriter) -> None:
        if self.pod_outages:
            self.pod_outages -= 1
            writer.transport.abort()
            return
        metadata = {"name": "p", "namespace": "ns", "uid": self.uid, "creationTimestamp": stamp(self.born)[:19] + "Z"}
        body = json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": metadata}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()

    async def _answer(self, query: dict[str, list[str]], writer: asyncio.StreamWriter) -> None:
        previous = "previous" in query
        if previous and len(self.runs) < 2:
            body = b'{"kind":"Status","message":"previous container not found","reason":"BadRequest","code":400}'
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            return
        if self.unknown:
            self.unknown -= 1
            body = json.dumps(UNKNOWN).encode()
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            return
        log = self.runs[-2 if previous else -1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        since = 0
        if "sinceTime" in query:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", query["sinceTime"][0])
            since = int(datetime.fromisoformat(query["sinceTime"][0]).timestamp()) * SECOND
        at = log.trimmed
        while True:
            part = b"".join(
                f"{stamp(ns, trimmed=self.trimmed)} ".encode() + text + b"\n"
                for ns, text in log.lines[at:]
                if ns >= since
            )
            at = len(log.lines)
            if part and self.deaths:
                await self._send(part[: int(len(part) * self.deaths.pop(0))], writer)
                break
            if not await self._send(part, writer):
                return
            if "follow" not in query or log.ended:
                break
            if self.dice and self.dice.random() < self.cut_chance / 4:
                break  # a clean end while the container runs: rotation, or an hour is over
            await asyncio.sleep(0.002)
            while self.silent:
                await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _send(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """In chunks that know nothing of lines or letters; False when the connection was cut."""
        while data:
            size = self.dice.randint(1, 4000) if self.dice else 65536
            chunk, data = data[:size], data[size:]
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            if self.dice and self.dice.random() < self.cut_chance:
                self.cuts += 1
                writer.transport.abort()
                return False
        return True
