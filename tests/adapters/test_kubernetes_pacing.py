"""A server that is busy is asked later, one that is away is left alone, and neither costs the others anything."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from apps.adapters.errors import Unavailable
from apps.adapters.kubernetes import Endpoint, KubeApi, calls, objects, pacing
from apps.adapters.kubernetes.pacing import Bucket
from apps.adapters.kubernetes.stream import StreamReader
from tests.adapters.scripted import Exchange, scripted

POD = objects.path(objects.POD, "a", "p")
BUSY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "please try again later"}


def endpoint(url: str) -> Endpoint:
    return Endpoint(url, None, lambda fresh=False: "t")


@contextmanager
def blackhole() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


def test_tokens_come_back_at_a_rate() -> None:
    now = [1000.0]
    bucket = Bucket(rate=10, burst=5, clock=lambda: now[0])
    waits = [bucket.reserve() for _ in range(8)]
    assert waits == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2, 0.3])
    now[0] += 60
    assert [bucket.reserve() for _ in range(6)] == pytest.approx([0, 0, 0, 0, 0, 0.1])


@pytest.mark.parametrize("code", [429, 503])
def test_nothing_is_asked_before_the_time_that_the_server_named(code: int) -> None:
    with scripted(lambda call: call.answer(code, BUSY | {"code": code}, Retry_After="7")) as server:
        api = KubeApi(endpoint(server.url))
        for _ in range(3):
            with pytest.raises(Unavailable) as caught:
                api.get(POD)
            assert 6 < caught.value.retry_after <= 7
        assert len(server.requests) == 1


async def test_a_watch_heeds_the_time_too() -> None:
    def script(call: Exchange) -> None:
        busy = len(server.requests) == 1
        call.answer(429 if busy else 200, BUSY if busy else {"gitVersion": "v1"}, Retry_After="1")

    with scripted(script) as server:
        reader = StreamReader(endpoint(server.url))
        with pytest.raises(Unavailable):
            await reader.version()
        began = time.monotonic()
        assert await reader.version() == "v1"
        assert time.monotonic() - began > 0.9
        await reader.close()


def test_a_server_that_is_away_holds_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is known to be away, one call at a time finds out whether it is back; all others come back at once."""
    monkeypatch.setattr(calls, "READ_SECONDS", 0.3)
    monkeypatch.setattr(pacing, "OPEN_SECONDS", 0.5)
    with blackhole() as url:
        api = KubeApi(endpoint(url))
        for _ in range(pacing.FAILURES):
            with pytest.raises(Unavailable):
                api.get(POD)
        held: list[bool] = []

        def ask() -> None:
            began = time.monotonic()
            with pytest.raises(Unavailable):
                api.get(POD)
            held.append(time.monotonic() - began > 0.2)

        time.sleep(0.6)
        threads = [threading.Thread(target=ask) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(held), sum(held)) == (50, 1)


def test_a_server_that_is_back_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "OPEN_SECONDS", 0.2)
    away = [True]

    def script(call: Exchange) -> None:
        if away[0]:
            call.cut()
        else:
            call.answer(200, {"gitVersion": "v1"})

    with scripted(script) as server:
        api = KubeApi(endpoint(server.url))
        for _ in range(10):
            with pytest.raises(Unavailable):
                api.version()
        assert len(server.requests) == pacing.FAILURES
        away[0] = False
        time.sleep(0.3)
        assert [api.version() for _ in range(3)] == ["v1"] * 3


def test_connections_are_used_again() -> None:
    with scripted(lambda call: call.answer(200, {"gitVersion": str(call.client_address[1])})) as server:
        api = KubeApi(endpoint(server.url))
        assert len({api.version() for _ in range(20)}) == 1

        async def read() -> set[str]:
            reader = StreamReader(endpoint(server.url))
            found = {await reader.version() for _ in range(20)}
            await reader.close()
            return found

        assert len(asyncio.run(read())) == 1
