"""The socket behind the real server: what a page that stops reading does to it, and to the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
import uvicorn
from django.conf import settings
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from apps.clusters.watch.database import in_thread
from apps.streams import services
from apps.streams.services import lobby
from apps.streams.urls import sockets
from maasportal import sockets as handshaking
from tests import factories
from tests.streams.test_socket import lines, signed_in

HANDSHAKE = (
    b"GET /ws/ HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def read_to_the_end(page: ClientConnection) -> None:
    while True:
        await asyncio.wait_for(page.recv(), 5)


@pytest.mark.parametrize("protocol", ["websockets-sansio", "maasportal.sockets:Sockets"])
@pytest.mark.django_db(transaction=True)
async def test_a_page_that_stops_reading_is_let_go_and_hurts_nobody(
    world: factories.World, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """ansible/awx#7720, channels_redis#212: buffers behind slow readers grew without bound."""
    monkeypatch.setattr(lobby, "SEND_SECONDS", 0.5)
    job = await in_thread(factories.job, world.scientist, world.place)
    session = await in_thread(signed_in, world.scientist)
    topic = job.topic
    await asyncio.to_thread(services.forget, topic)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(sockets, log_level="error", lifespan="off", ws=protocol))
    serving = asyncio.create_task(server.serve([listener]))
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/"
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}

    async def join(**options: int | None) -> ClientConnection:
        page = await connect(
            url, origin=settings.BASE_URL, additional_headers=cookie, compression=None, max_size=None, **options
        )
        await page.send(json.dumps({"op": "subscribe", "topic": topic, "log": True}))
        return page

    slow, fast = await join(max_queue=1), await join(max_queue=None)
    got = 0
    for turn in range(1, 61):
        await asyncio.to_thread(lines, topic, *["x" * 2_000] * 200)
        while got < 200 * turn:
            message = json.loads(await asyncio.wait_for(fast.recv(), 5))
            got += sum(len(frame["lines"]) for frame in message["frames"])
    await asyncio.sleep(1)
    with pytest.raises(ConnectionClosed) as closed:
        await read_to_the_end(slow)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    assert got == 12_000

    await fast.close()
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


@pytest.mark.django_db(transaction=True)
async def test_all_who_come_at_once_are_let_in_though_some_go_before_their_turn(world: factories.World) -> None:
    session = await in_thread(signed_in, world.scientist)
    topic = (await in_thread(factories.job, world.scientist, world.place)).topic
    await asyncio.to_thread(services.forget, topic)
    await asyncio.to_thread(lines, topic, "here")
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    config = uvicorn.Config(sockets, log_level="error", lifespan="off", ws="maasportal.sockets:Sockets")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    port = listener.getsockname()[1]
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}

    async def gone() -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        writer.transport.abort()

    async def come() -> str:
        url = f"ws://127.0.0.1:{port}/ws/"
        async with connect(url, origin=settings.BASE_URL, additional_headers=cookie, open_timeout=30) as page:
            await page.send(json.dumps({"op": "subscribe", "topic": topic, "log": True}))
            told = json.loads(await asyncio.wait_for(page.recv(), 30))
            return str(told["frames"][0]["lines"][0][4])

    found = await asyncio.gather(*(come() if number % 3 else gone() for number in range(60)))
    assert [text for text in found if text] == ["here"] * 40
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


async def test_who_says_much_before_its_turn_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says would be kept until it has its turn."""
    monkeypatch.setattr(handshaking, "EVERY_SECONDS", 600)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(sockets, log_level="error", lifespan="off", ws="maasportal.sockets:Sockets")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    first, greeting = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    greeting.write(HANDSHAKE)
    assert (await asyncio.wait_for(first.readline(), 10)).startswith(b"HTTP/1.1 ")

    second, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    writer.write(HANDSHAKE)
    writer.write(b"x" * handshaking.MOST_BYTES * 20)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(second.read(), 10) == b""
    server.should_exit = True
    await asyncio.wait_for(serving, 10)
