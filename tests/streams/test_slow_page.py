"""One page on a thin line beside twenty on thick ones, behind the real server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from channels.db import database_sync_to_async
from django.conf import settings
from websockets.asyncio.client import ClientConnection, connect

from apps.streams import services
from apps.streams.services import lobby
from apps.streams.urls import sockets
from tests import factories
from tests.streams.test_socket import lines, signed_in

FAST, FRAMES, LINES = 20, 120, 150
BUFFER = 16 << 10
"""Bytes that the kernel may hold for a socket: what it took by itself would hide that a page is slow."""


@dataclass
class Page:
    """What a page was shown: texts in their order, with None where lines are missing, and how many those are."""

    connection: ClientConnection
    shown: list[str | None] = field(default_factory=list)
    missing: int = 0

    async def read(self, count: int) -> None:
        """Until so many lines were shown or told to be missing."""
        while sum(text is not None for text in self.shown) + self.missing < count:
            message: dict[str, Any] = json.loads(await self.connection.recv())
            if message["t"] == "gap":
                self.shown.append(None)
                self.missing += message["n"]
            for frame in message.get("frames", ()):
                self.shown += [line[4] for line in frame["lines"]]


@asynccontextmanager
async def thin_line(port: int, widened: asyncio.Event) -> AsyncIterator[int]:
    """The port of a line that passes 1 KB a second on to its page until it is `widened`."""
    tasks: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1024):
                writer.write(data)
                await writer.drain()
                if slowly:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(widened.wait(), 1)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        thin = socket.socket()
        thin.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        thin.setblocking(False)
        await asyncio.get_running_loop().sock_connect(thin, ("127.0.0.1", port))
        answers, asks = await asyncio.open_connection(sock=thin, limit=1024)
        tasks.add(asyncio.create_task(carry(reader, asks, slowly=False)))
        tasks.add(asyncio.create_task(carry(answers, writer, slowly=True)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.django_db(transaction=True)
async def test_a_page_at_1_kb_a_second_changes_nothing_for_twenty_others(
    world: factories.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get every line; it gets what it can, and is told how many lines it did not."""
    monkeypatch.setattr(lobby, "SEND_SECONDS", 600)
    job = await database_sync_to_async(factories.job)(world.scientist, world.place)
    session = await database_sync_to_async(signed_in)(world.scientist)
    topic, cookie = job.topic, {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}
    await asyncio.to_thread(services.forget, topic)
    listener, widened = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(sockets, log_level="error", lifespan="off", ws="maasportal.sockets:Sockets"))
    serving = asyncio.create_task(server.serve([listener]))

    async def join(port: int) -> Page:
        url = f"ws://127.0.0.1:{port}/ws/"
        page = await connect(
            url,
            origin=settings.BASE_URL,
            additional_headers=cookie,
            compression=None,
            max_size=None,
            ping_interval=None,
        )
        await page.send(json.dumps({"op": "subscribe", "topic": topic, "log": True}))
        return Page(page)

    async with thin_line(port, widened) as thin:
        pages = [await join(port) for _ in range(FAST)]
        slow = await join(thin)
        reading, written = asyncio.create_task(slow.read(FRAMES * LINES)), list[str]()
        for number in range(FRAMES):
            texts = [f"{number * LINES + n} {'x' * 80}" for n in range(LINES)]
            await asyncio.to_thread(lines, topic, *texts)
            written += texts
            async with asyncio.timeout(60):
                await asyncio.gather(*(page.read(len(written)) for page in pages))
        assert all(page.shown == written for page in pages)
        assert len(slow.shown) < len(written) / 2, "it was slow"
        widened.set()
        await asyncio.wait_for(reading, 60)
        for page in (*pages, slow):
            await page.connection.close()
    assert slow.missing > 0
    assert slow.missing + sum(text is not None for text in slow.shown) == len(written)
    place = 0
    for text in slow.shown:  # in order, none twice, and nothing is missing but at the marks
        if text is None:
            place = -1
        else:
            assert place in (-1, written.index(text, max(place, 0)))
            place = written.index(text, max(place, 0)) + 1
    assert slow.shown[-1] == written[-1]
    server.should_exit = True
    await asyncio.wait_for(serving, 10)
