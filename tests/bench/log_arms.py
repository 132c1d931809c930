"""A log from its source to open pages, in processes of their own: one reader that only counts, this product with its
rights and parsing, and a channel layer that is sent every line by itself.

What a line costs is the CPU time of the processes that carry it, so that a busy machine does not change the figures much;
the source, the pages and Redis are not counted, for no arm.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvloop

from tests.bench.database import test_database

MARK = "~##~"
"""Stands once in each line: pages count it in the raw bytes. (The header of a frame may hold ~ and any two bytes.)"""
LAST = f"{MARK} the end"
POD = json.dumps(
    {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid", "creationTimestamp": "2026-09-01T00:00:00Z"},
    }
).encode()  # fmt: skip
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Carried:
    """What came over: lines in all, CPU seconds of those who carried them, ms from the source to the page."""

    lines: int
    cpu: float
    late: list[float]

    @property
    def per_core(self) -> float:
        """Lines a second that one core would deliver."""
        return self.lines / self.cpu


@contextmanager
def prepared() -> Iterator[tuple[str, str]]:
    """A test database with a running job: its topic, and the session of its owner."""
    with test_database():
        from django.conf import settings
        from django.db import connection

        import apps.clusters.watch.follow  # noqa: F401 (imported here, its cost is in no arm)
        from tests import factories, pages

        world = factories.World.make()
        topic, client = factories.job(world.scientist, world.place).topic, pages.browser(world.scientist)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        connection.close()
        connection.close_pool()
        yield topic, session


def line(number: int) -> str:
    """One of a training log; `@` is when the source sent it, in ns."""
    loss = f"[Loss: {2 + number % 97 / 1e3:.3f}, LR: 1.5e-4]" if number % 50 == 0 else "micro batch done, 3.1 s"
    return f"[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-{number}] {loss} @{time.monotonic_ns()} {MARK}"


async def source(listener: socket.socket, count: int, rate: int) -> None:
    """Serves the log to whoever asks, `rate` lines a second, 0 for as fast as it is read."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while b"/log" not in (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]:
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(POD) + POD
            )
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        start, sent, at = time.monotonic(), 0, 1_790_000_000
        while sent < count:
            many = min(count - sent, 500 if not rate else max(0, int((time.monotonic() - start) * rate) - sent))
            part = "".join(
                f"2026-09-21T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}.{n * 1000:09}Z {line(sent + n)}\n"
                for n in range(many)
            )
            sent, at = sent + many, at + 1
            if sent == count:
                part += f"2026-09-22T23:59:59Z {LAST}\n"
            if part:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part.encode()))
                await writer.drain()
            if rate:
                await asyncio.sleep(0.001)
        await asyncio.sleep(3600)

    async with await asyncio.start_server(serve, sock=listener) as server:
        await server.serve_forever()


async def count_only(port: int, count: int) -> None:
    """The raw reader: the product's client, and no more than counting."""
    from apps.adapters.kubernetes import Endpoint, objects
    from apps.adapters.kubernetes.stream import StreamReader

    reader = StreamReader(Endpoint(f"http://127.0.0.1:{port}", None, lambda fresh=False: "t"))
    seen = 0
    async for chunk in reader.log(objects.path(objects.POD, "ns", "p"), "main", follow=True, timestamps=True):
        seen += chunk.count(b"\n")
        if seen > count:
            break
    await reader.close()


async def follow(port: int, topic: str) -> None:
    from apps.adapters.kubernetes import Endpoint, objects
    from apps.adapters.kubernetes.stream import StreamReader
    from apps.clusters.services.registry import WorkloadKind
    from apps.clusters.watch.follow import Follower, Run, Target
    from apps.jobs.domain.traininglog import LogReader
    from apps.streams import services as streams

    kind = WorkloadKind("bench", "jobs.reconcile_job", lambda row: f"job.{row}", LogReader)
    reader = StreamReader(Endpoint(f"http://127.0.0.1:{port}", None, lambda fresh=False: "t"))
    target = Target(objects.path(objects.POD, "ns", "p"), "main", "uid", topic, kind, streams.Source(0, 1, "p"))
    await Follower(target, reader, streams.LiveBuffer(), Run(0, False)).run()


async def serve(listener: socket.socket) -> None:
    import uvicorn

    from apps.streams.urls import sockets

    config = uvicorn.Config(
        sockets, log_level="error", lifespan="off", ws="maasportal.sockets:Sockets", ws_per_message_deflate=False,
        ws_ping_interval=None,
    )  # fmt: skip
    await uvicorn.Server(config).serve([listener])


class Page(asyncio.Protocol):
    """An open page that does nothing but count marks in the raw bytes, as fast as they come."""

    def __init__(self, hello: bytes, late: list[float]) -> None:
        self.opened, self.ended = asyncio.Event(), asyncio.Event()
        self.lines, self._late, self._hello, self._rest = 0, late, hello, b""

    def connection_made(self, transport: Any) -> None:
        transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        now, data = time.monotonic_ns(), self._rest + data
        self.lines += data.count(MARK.encode())
        end = data.rfind(MARK.encode())
        start = data.rfind(b" @", 0, max(end, 0))
        if start >= 0 and end - start < 30:  # the last line of all says no time
            self._late.append((now - int(data[start + 2 : end])) / 1e6)
        if LAST.encode() in data:
            self.ended.set()
        self._rest = data[max(end + len(MARK), len(data) - 64) :]
        self.opened.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set()


async def watch(port: int, session: str, topic: str, viewers: int, told: Any) -> None:
    """Open pages that count; `told` hears when all have subscribed, and what came."""
    from django.conf import settings

    late: list[float] = []
    request = json.dumps({"op": "subscribe", "topic": topic, "log": True}).encode()
    hello = (
        f"GET /ws/ HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {settings.BASE_URL}\r\n"
        f"Cookie: {settings.SESSION_COOKIE_NAME}={session}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    subscribe = bytes([0x81, 0x80 | len(request), 0, 0, 0, 0]) + request
    loop = asyncio.get_running_loop()
    pages: list[Page] = []
    for _ in range(viewers):
        transport, page = await loop.create_connection(lambda: Page(hello, late), "127.0.0.1", port)
        await page.opened.wait()
        transport.write(subscribe)
        pages.append(page)
    await asyncio.sleep(1)
    told.put("ready")
    await asyncio.gather(*(page.ended.wait() for page in pages))
    told.put((sum(page.lines - 1 for page in pages), late))


def carry(topic: str, session: str, viewers: int, count: int, rate: int = 0) -> Carried:
    """A log of `count` lines through the product to so many pages."""
    from apps.streams import services as streams

    streams.forget(topic)
    told, web, log = FORK.Queue(), socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    ports = web.getsockname()[1], log.getsockname()[1]
    serving, sending = _Process(serve, web), _Process(source, log, count, rate)
    watching = _Process(watch, ports[0], session, topic, viewers, told)
    assert told.get(timeout=60) == "ready"
    before, following = serving.cpu(), _Process(follow, ports[1], topic)
    lines, late = told.get(timeout=300)
    cpu = serving.cpu() - before + following.cpu()
    for process in (watching, following, serving, sending):
        process.end()
    return Carried(lines, cpu, late)


def raw(count: int) -> Carried:
    """The same log only counted."""
    log = socket.create_server(("127.0.0.1", 0))
    sending, reading = _Process(source, log, count, 0), _Process(count_only, log.getsockname()[1], count)
    cpu = reading.wait()
    sending.end()
    return Carried(count, cpu, [])


async def each_line(viewers: int, count: int) -> Carried:
    """A channel layer that is sent every line, as chat examples do; no sockets, no rights, no parsing."""
    from channels_redis.core import RedisChannelLayer
    from django.conf import settings

    layer = RedisChannelLayer([settings.REDIS_URL], capacity=count * 2)
    names = [await layer.new_channel() for _ in range(viewers)]
    for name in names:
        await layer.group_add("bench", name)
    before = _own_cpu()

    async def page(name: str) -> None:
        for _ in range(count):
            await layer.receive(name)

    tasks = [asyncio.create_task(page(name)) for name in names]
    for number in range(count):
        await layer.group_send("bench", {"type": "line", "text": line(number)})
    await asyncio.wait_for(asyncio.gather(*tasks), 120)
    cpu = _own_cpu() - before
    await layer.close_pools()
    return Carried(viewers * count, cpu, [])


class _Process:
    """An asynchronous function in a process of its own, whose CPU time can be asked for."""

    def __init__(self, run: Callable[..., Any], *args: Any) -> None:
        self._pipe, other = FORK.Pipe()
        self._process = FORK.Process(target=_run, args=(other, run, args), daemon=True)
        self._process.start()

    def cpu(self) -> float:
        import psutil

        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def wait(self) -> float:
        """CPU seconds when it is over, without its start."""
        return float(self._pipe.recv())

    def end(self) -> None:
        self._process.terminate()
        self._process.join(10)


def _run(pipe: Any, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
    before = _own_cpu()
    uvloop.run(run(*args))  # as the watch and uvicorn run
    pipe.send(_own_cpu() - before)


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
