"""The one socket of a page, with real sessions, a real Redis and a real ASGI server where time matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from redis.exceptions import RedisError

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.accounts.models import Membership, User
from apps.clusters.watch.database import in_thread
from apps.streams import services
from apps.streams.services import buffer, lobby
from apps.streams.services import hub as hubs
from apps.streams.urls import sockets
from tests import factories
from tests.pages import session_of
from tests.streams.communicator import Socket

pytestmark = pytest.mark.django_db(transaction=True)

SOURCE = services.Source(rank=0, attempt=1, pod="p-0")


def lines(topic: str, *texts: str) -> None:
    services.append(topic, services.LogFrame(SOURCE, [services.LogLine(1, "INFO", 0, None, text) for text in texts]))


def signed_in(user: User) -> str:
    client = Client()
    session_of(client, user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@asynccontextmanager
async def page(session: str, origin: str | None = None, taking: asyncio.Event | None = None) -> AsyncIterator[Socket]:
    """`taking`: the page takes what it is sent only while that is set."""
    headers = [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode())]
    headers += [(b"origin", (origin or settings.BASE_URL).encode())] if origin != "" else []
    socket = Socket(sockets if taking is None else _taking(taking), headers)
    try:
        yield socket
    finally:
        await socket.disconnect()


def _taking(taking: asyncio.Event) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def wait_to_send(message: Any) -> None:
            if message["type"] == "websocket.send":
                await taking.wait()
            await send(message)

        await sockets(scope, receive, wait_to_send)

    return application


async def subscribe(socket: Socket, topic: str, cursor: str | None = None) -> None:
    await socket.send_json_to({"op": "subscribe", "topic": topic, "cursor": cursor, "log": True})


async def told(socket: Socket, count: int) -> tuple[list[str], str]:
    """The next `count` lines, and the cursor after them."""
    texts: list[str] = []
    cursor = ""
    while len(texts) < count:
        message = await socket.receive_json_from(timeout=3)
        assert message["t"] == "log", message
        texts += [line[4] for frame in message["frames"] for line in frame["lines"]]
        cursor = message["cursor"]
    assert len(texts) == count
    return texts, cursor


async def closed(socket: Socket) -> int:
    while True:
        event = await socket.receive_output(timeout=3)
        if event["type"] == "websocket.close":
            return int(event["code"])


@pytest.fixture
def place(world: factories.World) -> dict[str, Any]:
    """A job, its topic, and the sessions of a member and of a stranger."""
    job = factories.job(world.scientist, world.place)
    member, stranger = world.scientist, world.stranger()
    topic = f"job.{job.pk}"
    services.forget(topic)
    return {"topic": topic, "member": signed_in(member), "stranger": signed_in(stranger), "user": member}


@pytest.mark.parametrize(
    "origin", ["", "http://evil.test", "http://testserver.evil.test", "https://testserver", "null"]
)
async def test_only_our_own_pages_connect(place: dict[str, Any], origin: str) -> None:
    async with page(place["member"], origin) as socket:
        connected, _ = await socket.connect()
        assert not connected


@pytest.mark.parametrize("session", ["", "0123456789abcdefghijklmnopqrstuv"])
async def test_without_a_session_the_socket_asks_to_sign_in(place: dict[str, Any], session: str) -> None:
    async with page(session) as socket:
        await socket.connect()
        assert await closed(socket) == 4401


@pytest.mark.parametrize("topic", ["job.{}", "job.01JABSENT", "cluster.1x", "nothing.1"])
async def test_a_stranger_may_not_follow(place: dict[str, Any], topic: str) -> None:
    who = "stranger" if topic == "job.{}" else "member"
    async with page(place[who]) as socket:
        await socket.connect()
        await subscribe(socket, place["topic"] if topic == "job.{}" else topic)
        assert await closed(socket) == 4403


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"op":"shout","topic":"job.1"}', '{"op":"subscribe","topic":"../x"}', "x" * 5000]
)
async def test_what_is_not_understood_closes(place: dict[str, Any], text: str) -> None:
    async with page(place["member"]) as socket:
        await socket.connect()
        await socket.send_input(
            {"type": "websocket.receive", "text": text} if text else {"type": "websocket.receive", "bytes": b"x"}
        )
        assert await closed(socket) == 4400


async def test_a_late_page_gets_the_last_thousand_lines_and_then_each_new_one(place: dict[str, Any]) -> None:
    topic = place["topic"]
    for start in range(0, 2_520, 70):
        await asyncio.to_thread(lines, topic, *[f"n{n}" for n in range(start, start + 70)])
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, topic)
        assert (await told(socket, 1000))[0] == [f"n{n}" for n in range(1_520, 2_520)]
        await asyncio.to_thread(lines, topic, "new")
        assert (await told(socket, 1))[0] == ["new"]


async def test_a_page_that_was_away_goes_on_after_its_cursor(place: dict[str, Any]) -> None:
    topic, seen, written = place["topic"], [], 0
    cursor: str | None = None
    for round_ in range(8):
        await asyncio.to_thread(lines, topic, *[f"n{n}" for n in range(written, written + 30)])
        written += 30
        async with page(place["member"]) as socket:
            await socket.connect()
            await subscribe(socket, topic, cursor)
            if round_ % 2:
                await asyncio.to_thread(lines, topic, f"n{written}")
                written += 1
            texts, cursor = await told(socket, written - len(seen))
            seen += texts
    assert seen == [f"n{n}" for n in range(written)]


async def test_what_was_trimmed_meanwhile_is_counted(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = place["topic"]
    monkeypatch.setattr("apps.streams.services.buffer.LINES_KEPT", 100)
    await asyncio.to_thread(lines, topic, *[f"n{n}" for n in range(10)])
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, topic)
        _, cursor = await told(socket, 10)
    for start in range(10, 510, 10):
        await asyncio.to_thread(lines, topic, *[f"n{n}" for n in range(start, start + 10)])
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, topic, cursor)
        gap = await socket.receive_json_from(timeout=3)
        assert gap["t"] == "gap"
        texts, _ = await told(socket, 500 - gap["n"])
        assert texts == [f"n{n}" for n in range(10 + gap["n"], 510)]
        assert 100 <= len(texts) < 120


async def test_a_lost_buffer_is_a_gap_of_unknown_size(place: dict[str, Any]) -> None:
    topic = place["topic"]
    await asyncio.to_thread(lines, topic, "old")
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, topic)
        await told(socket, 1)
        await asyncio.to_thread(services.forget, topic)
        await asyncio.to_thread(lines, topic, "new")
        assert await socket.receive_json_from(timeout=3) == {"t": "gap", "topic": topic, "n": None}
        assert (await told(socket, 1))[0] == ["new"]


async def test_hints_reach_the_page_after_commit(place: dict[str, Any]) -> None:
    async with page(place["member"]) as socket:
        await socket.connect()
        await socket.send_json_to({"op": "subscribe", "topic": place["topic"], "log": False})
        await socket.send_json_to({"op": "subscribe", "topic": place["topic"], "log": False})
        assert await socket.receive_nothing(0.3)
        await in_thread(services.hint, place["topic"])
        assert await socket.receive_json_from(timeout=3) == {"t": "hint", "topic": place["topic"]}
        assert await socket.receive_nothing(0.2)


async def test_a_right_taken_away_closes_the_page_at_once(place: dict[str, Any]) -> None:
    """Argo CD, CVE-2023-40025: a socket must not outlive the right it was opened with."""
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, place["topic"])
        assert await socket.receive_nothing(0.3)
        await in_thread(Membership.objects.filter(user=place["user"]).delete)
        await in_thread(services.revoked, str(place["user"].pk))
        assert await closed(socket) == 4403


async def test_a_session_that_ended_closes_the_page_in_time(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """channels#1324: nobody looks at the session again unless the consumer does."""
    monkeypatch.setattr(lobby, "RECHECK_SECONDS", 0.2)
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, place["topic"])
        assert await socket.receive_nothing(0.1)
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = place["member"]
        await in_thread(client.session.flush)
        assert await closed(socket) == 4401


async def test_pages_are_judged_together(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred pages of two people cost a look or two at the database, not a hundred."""
    looks: list[set[str]] = []
    session_actors = accounts.session_actors

    def counted(keys: set[str]) -> Any:
        looks.append(keys)
        return session_actors(keys)

    monkeypatch.setattr(accounts, "session_actors", counted)
    people = [place["member"], place["stranger"]] * 50
    pages = [Socket(sockets, _headers(session)) for session in people]
    await asyncio.gather(*(socket.connect() for socket in pages))
    await asyncio.sleep(0.3)
    for socket in pages:
        await subscribe(socket, place["topic"])
    codes = await asyncio.gather(*(closed(socket) for socket in pages[1::2]))
    assert codes == [4403] * 50
    assert set().union(*looks) == {place["member"], place["stranger"]}
    assert len(looks) < 20
    for socket in pages:
        await socket.disconnect()


async def test_after_an_outage_of_redis_pages_look_again(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """channels_redis#256: a reader that came back said nothing of what it had missed."""
    async with page(place["member"]) as socket:
        await socket.connect()
        await socket.send_json_to({"op": "subscribe", "topic": place["topic"], "log": False})
        assert await socket.receive_nothing(0.3)
        with monkeypatch.context() as broken:
            broken.setattr(lobby, "pairs", _lost)
            assert await socket.receive_nothing(1.2)
        assert await socket.receive_json_from(timeout=3) == {"t": "hint", "topic": place["topic"]}


def _lost(_found: Any) -> Any:
    raise RedisError("The connection is gone.")


@pytest.mark.parametrize("failure", [OSError("gone"), RuntimeError("Unexpected ASGI message after close")])
async def test_a_page_that_is_gone_before_the_server_says_so_hurts_nobody(
    place: dict[str, Any], failure: Exception
) -> None:
    """uvicorn has closed a page that answered no ping, and refuses to send; the other pages hear on."""

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        async def refuse(message: Any) -> None:
            if message["type"] == "websocket.send":
                raise failure
            await send(message)

        await sockets(scope, receive, refuse)

    gone, well = Socket(broken, _headers(place["member"])), Socket(sockets, _headers(place["member"]))
    for socket in (gone, well):
        await socket.connect()
        await socket.send_json_to({"op": "subscribe", "topic": place["topic"], "log": False})
    assert await well.receive_nothing(0.5)
    for _ in range(2):
        await in_thread(services.hint, place["topic"])
        assert await well.receive_json_from(timeout=3) == {"t": "hint", "topic": place["topic"]}
    for socket in (gone, well):
        await socket.disconnect()


async def test_a_quiet_page_hears_a_beat(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A page cannot see the server's pings; without a word it could not tell quiet from cut off."""
    monkeypatch.setattr(lobby, "RECHECK_SECONDS", 0.1)
    async with page(place["member"]) as socket:
        await socket.connect()
        assert await socket.receive_json_from(3) == {"t": "beat"}


@pytest.mark.parametrize("followed", [5000, 150])
async def test_a_slow_page_reads_what_it_missed_from_the_buffer(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch, followed: int
) -> None:
    """Its queue holds fewer frames than came; only what is more than a page shows is passed over, and counted."""
    topic, taking = place["topic"], asyncio.Event()
    taking.set()
    monkeypatch.setattr("apps.streams.services.buffer.FOLLOWED_LINES", followed)
    await asyncio.to_thread(lines, topic, "first")
    async with page(place["member"], taking=taking) as socket:
        await socket.connect()
        await subscribe(socket, topic)
        await told(socket, 1)
        assert await socket.receive_nothing(0.3)  # it has caught up with the buffer and lives on the queue now
        taking.clear()
        for number in range(200):
            await asyncio.to_thread(lines, topic, f"n{number}")
        await asyncio.sleep(0.3)
        taking.set()
        texts: list[str] = []
        missing = 0
        while len(texts) + missing < 200:
            message = await socket.receive_json_from(timeout=3)
            if message["t"] == "gap":
                missing += message["n"]
            else:
                texts += [line[4] for frame in message["frames"] for line in frame["lines"]]
    assert 2 * hubs.RECENT_FRAMES < 200
    assert len(set(texts)) == len(texts) == 200 - missing
    assert texts[-1] == "n199"
    assert missing == 0 if followed > 200 else 0 < missing <= 200 - followed


async def test_many_frames_at_once_are_no_gap(place: dict[str, Any]) -> None:
    """The buffer comes back from an outage with more frames in it than a page's queue holds."""
    topic = place["topic"]
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, topic)
        await asyncio.to_thread(lines, topic, "first")
        await told(socket, 1)
        many = [services.LogFrame(SOURCE, [services.LogLine(1, "INFO", 0, None, f"n{n}")]) for n in range(150)]
        await asyncio.to_thread(services.append, topic, *many)
        assert (await told(socket, 150))[0] == [f"n{n}" for n in range(150)]


async def test_a_page_that_takes_nothing_is_given_up(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobby, "SEND_SECONDS", 0.2)
    await asyncio.to_thread(lines, place["topic"], "first")
    async with page(place["member"], taking=asyncio.Event()) as socket:
        await socket.connect()
        await subscribe(socket, place["topic"])
        assert await closed(socket) == 1013


async def test_all_pages_of_a_process_share_one_reader(place: dict[str, Any]) -> None:
    topic = place["topic"]
    sockets_ = [Socket(sockets, _headers(place["member"])) for _ in range(5)]
    for socket in sockets_:
        await socket.connect()
        await subscribe(socket, topic)
    await asyncio.sleep(0.5)
    await asyncio.to_thread(lines, topic, "to all")
    for socket in sockets_:
        assert (await told(socket, 1))[0] == ["to all"]
    readers = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == "Hub._read"]
    assert len(readers) == 1
    for socket in sockets_:
        await socket.disconnect()


async def test_pages_that_come_back_together_share_what_is_read(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    for module, name in ((hubs, "tail"), (buffer, "after")):
        read = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, _read=read, _name=name: (reads.append(_name), _read(*given))[1]
        )
    monkeypatch.setattr(hubs, "TAIL_SECONDS", 60.0)
    topic, count = place["topic"], 12
    await asyncio.to_thread(lines, topic, *[f"n{n}" for n in range(5)])
    async with AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(page(place["member"])) for _ in range(count)]
        for socket in pages:
            await socket.connect()
            await subscribe(socket, topic)
        for number in range(5, 15):
            await asyncio.to_thread(lines, topic, f"n{number}")
        for socket in pages:
            texts, cursor = await told(socket, 15)
            assert texts == [f"n{n}" for n in range(15)]
        assert reads == ["tail"]
        for _ in range(count):
            back = await stack.enter_async_context(page(place["member"]))
            await back.connect()
            await subscribe(back, topic, cursor)
            pages.append(back)
        await asyncio.to_thread(lines, topic, "n15")
        for socket in pages:
            assert (await told(socket, 1))[0] == ["n15"]
        assert reads == ["tail"]


def _headers(session: str) -> list[tuple[bytes, bytes]]:
    cookie = f"{settings.SESSION_COOKIE_NAME}={session}".encode()
    return [(b"cookie", cookie), (b"origin", settings.BASE_URL.encode())]


async def test_points_travel_with_the_lines(place: dict[str, Any]) -> None:
    topic = place["topic"]
    async with page(place["member"]) as socket:
        await socket.connect()
        await subscribe(socket, topic)
        await asyncio.sleep(0.2)
        point = services.LivePoint("loss", 3, services.jsonable(float("nan")), 1_790_000_000_000)
        frame = services.PointsFrame(SOURCE, [point])
        await asyncio.to_thread(services.append, topic, frame)
        message = await socket.receive_json_from(timeout=3)
    assert (message["t"], message["frames"][0]["points"]) == ("points", [["loss", 3, "NaN", 1_790_000_000_000]])


def test_roles_see_what_the_table_says(world: factories.World) -> None:
    job = factories.job(world.scientist, world.place)
    topic = f"job.{job.pk}"
    may = {role for role in Role if services.may_follow(world.actor(role), topic)}
    assert may == set(Role)
    assert not services.may_follow(world.stranger().actor(), topic)
