"""Watches that break in all known ways."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import msgspec
import pytest

from apps.adapters.errors import Unavailable
from apps.adapters.kubernetes import Endpoint, NodeGone, objects, stream
from apps.adapters.kubernetes.stream import Event, Expired, StreamReader
from apps.clusters.watch import projections
from apps.clusters.watch.reflect import Reflector
from tests.adapters.scripted import Exchange, scripted

PODS = objects.everywhere(objects.POD)


def reader(url: str) -> StreamReader:
    return StreamReader(Endpoint(url, None, lambda fresh=False: "new" if fresh else "old"))


def event(kind: str, name: str, version: int, **more: Any) -> bytes:
    meta = {"name": name, "namespace": "a", "uid": f"u-{name}", "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": meta, **more}}).encode() + b"\n"


def gone() -> bytes:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


async def watched(url: str, version: str = "1") -> list[Event[projections.Pod]]:
    one = reader(url)
    try:
        return [event async for event in one.watch(PODS, version, projections.PODS)]
    finally:
        await one.close()


async def test_events_survive_any_chunking() -> None:
    data = event("ADDED", "损失", 2) + event("BOOKMARK", "", 3) + event("DELETED", "b", 4)

    def script(call: Exchange) -> None:
        call.begin()
        for at in range(0, len(data), 3):
            call.chunk(data[at : at + 3])
        call.chunk(b"")

    with scripted(script) as server:
        events = await watched(server.url)
        query = server.requests[0].path
    assert [(e.type, e.version, e.object and e.object.metadata.name) for e in events] == [
        ("ADDED", "2", "损失"), ("BOOKMARK", "3", None), ("DELETED", "4", "b"),
    ]  # fmt: skip
    assert "allowWatchBookmarks=true" in query
    assert "timeoutSeconds=50" in query


@pytest.mark.parametrize("form", ["event", "answer"])
async def test_410_comes_in_two_forms(form: str) -> None:
    def script(call: Exchange) -> None:
        if form == "answer":
            call.answer(410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "expired"})
            return
        call.begin()
        call.chunk(gone())
        call.chunk(b"")

    with scripted(script) as server, pytest.raises(Expired):
        await watched(server.url)


async def test_a_half_open_watch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubernetes-client/python#1148, #2067: a stream that says nothing for ever."""
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 0.3)

    def script(call: Exchange) -> None:
        call.begin()
        call.chunk(event("ADDED", "a", 2))
        time.sleep(3)

    with scripted(script) as server:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            await watched(server.url)
        assert time.monotonic() - began < 2


async def test_a_watch_that_stops_being_http_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between writes a page of its own into the stream."""
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 0.5)

    def script(call: Exchange) -> None:
        call.begin()
        call.chunk(event("ADDED", "a", 2))
        time.sleep(0.2)
        call.wfile.write(b"<html>Bad gateway</html>")
        call.wfile.flush()
        time.sleep(3)

    with scripted(script) as server, pytest.raises(Unavailable):
        async with asyncio.timeout(10):
            await watched(server.url)


async def test_one_odd_object_does_not_hide_the_others() -> None:
    def script(call: Exchange) -> None:
        call.begin()
        call.chunk(
            event("ADDED", "odd", 2, status={"phase": ["?"]}) + event("ADDED", "good", 3, status={"phase": "Odd"})
        )
        call.chunk(b"")

    with scripted(script) as server:
        odd, good = await watched(server.url)
    assert odd.object is None
    assert good.object is not None
    assert good.object.status.phase == "Odd"


async def test_a_dead_token_is_read_again() -> None:
    def script(call: Exchange) -> None:
        good = call.headers["Authorization"] == "Bearer new"
        call.answer(200, {"gitVersion": "v1.36.1"}) if good else call.answer(401, b"Unauthorized")

    with scripted(script) as server:
        one = reader(server.url)
        assert await one.version() == "v1.36.1"
        await one.close()


async def test_a_log_of_a_node_that_is_gone() -> None:
    status = {
        "kind": "Status",
        "code": 404,
        "reason": "NotFound",
        "message": "",
        "details": {"name": "node-7", "kind": "pods"},
    }
    with scripted(lambda call: call.answer(404, status)) as server:
        one = reader(server.url)
        with pytest.raises(NodeGone):
            async for _ in one.log(objects.path(objects.POD, "a", "p"), "main"):
                pass
        await one.close()


async def test_a_reflector_ends_up_with_the_truth() -> None:
    """Events are dropped, the version expires, the server is cut off: what was deleted meanwhile is told too."""
    pods = {"a": 1, "b": 2}
    turns = iter(["expire", "cut", "quiet"])
    told: list[tuple[str, str]] = []

    def script(call: Exchange) -> None:
        if "watch" not in call.path:
            items = [{"metadata": {"name": n, "namespace": "x", "resourceVersion": str(v)}} for n, v in pods.items()]
            call.answer(
                200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items}
            )
            return
        turn = next(turns, "quiet")
        call.begin()
        if turn == "expire":
            del pods["a"]
            pods["b"], pods["c"] = 10, 11
            call.chunk(gone())
            call.chunk(b"")
        elif turn == "cut":
            call.chunk(event("ADDED", "d", 12).replace(b'"a"', b'"x"'))
            call.cut()
        else:
            time.sleep(3)

    def changed(old: projections.Pod | None, new: projections.Pod | None) -> None:
        item = new or old
        assert item is not None
        told.append(("gone" if new is None else "changed" if old else "new", item.metadata.name))

    with scripted(script) as server:
        one = reader(server.url)
        reflector = Reflector(one, PODS, projections.PODS, changed, broken=lambda: None)
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(5):
            while ("new", "d") not in told:
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await one.close()
    assert told == [("new", "a"), ("new", "b"), ("gone", "a"), ("changed", "b"), ("new", "c"), ("new", "d")]
    assert sorted(name for _, name in reflector.store) == ["b", "c", "d"]


async def test_a_stream_out_of_order_is_not_trusted() -> None:
    """An older state must not stay, nor what is gone come back."""
    ends: list[bool] = []

    def script(call: Exchange) -> None:
        if "watch=true" not in call.path:
            call.answer(200, {"metadata": {"resourceVersion": "12" if ends else "9"}, "items": []})
            ends.append(True)
        else:
            call.begin()
            if len(ends) == 1:
                call.chunk(event("DELETED", "a", 12) + event("MODIFIED", "a", 11))
            time.sleep(3)

    with scripted(script) as server:
        one = reader(server.url)
        reflector = Reflector(one, PODS, projections.PODS, lambda *_: None, lambda: None)
        running = asyncio.create_task(reflector.run())
        async with asyncio.timeout(10):
            while len(ends) < 2 or not reflector.synced.is_set():
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        assert reflector.store == {}
        running.cancel()
        await one.close()


async def test_a_server_that_has_not_yet_read_its_roles_is_asked_again_soon() -> None:
    """kube-apiserver refuses for a moment after its start what it will allow: half a minute blind is too long."""
    refusal = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": 'pods is forbidden: User "portal"'}

    def script(call: Exchange) -> None:
        if len(server.requests) <= 3:
            call.answer(403, refusal)
        elif "watch=true" in call.path:
            call.cut()
        else:
            call.answer(200, {"metadata": {"resourceVersion": "7"}, "items": []})

    with scripted(script) as server:
        one = reader(server.url)
        reflector = Reflector(one, PODS, projections.PODS, lambda *_: None, lambda: None)
        running = asyncio.create_task(reflector.run())
        async with asyncio.timeout(20):
            await reflector.synced.wait()
        running.cancel()
        await one.close()


@pytest.mark.parametrize(("decoder", "whole"), [(projections.OBJECTS, False), (projections.PODS, True)])
async def test_what_is_not_read_is_not_asked_for(decoder: msgspec.json.Decoder[Any], *, whole: bool) -> None:
    def script(call: Exchange) -> None:
        if "watch" in call.path:
            call.begin()
            call.chunk(event("ADDED", "a", 2))
            call.chunk(b"")
        else:
            call.answer(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode())

    with scripted(script) as server:
        one = reader(server.url)
        await one.listing(PODS, decoder)
        assert [each.version async for each in one.watch(PODS, "1", decoder)] == ["2"]
        await one.close()
        asked = [request.headers["Accept"] for request in server.requests]
    short = [
        f"application/json;as=PartialObjectMetadata{part};g=meta.k8s.io;v=v1,application/json" for part in ("List", "")
    ]
    assert asked == (["application/json"] * 2 if whole else short)
