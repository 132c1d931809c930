"""Watches and followed logs: answers that go on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.localcluster.contract.cases import pointed
from tests.localcluster.contract.exchange import Answer, Exchange
from tests.localcluster.contract.matching import Comparison

SETTLE_SECONDS = 0.3


@dataclass
class Stream:
    head: Answer
    lines: list[str] = field(default_factory=list)
    ended_by: str = "client"
    seconds: float = 0.0


def follow(
    exchange: Exchange, request: dict[str, Any], wanted: dict[str, Any], meanwhile: Callable[[], None]
) -> Stream:
    """Reads until the server ends it, or until everything recorded has come; `meanwhile` runs as it stands open."""
    return asyncio.run(_follow(exchange, request, wanted, meanwhile))


async def _follow(
    exchange: Exchange, request: dict[str, Any], wanted: dict[str, Any], meanwhile: Callable[[], None]
) -> Stream:
    longest = max(float(wanted.get("seconds", 0)), float(request.get("query", {}).get("timeoutSeconds", 0))) + 15
    count = len(wanted.get("events") or wanted.get("lines") or [])
    began = time.monotonic()
    async with httpx.AsyncClient(verify=exchange.row.trust, trust_env=False) as client:
        # A server may keep the headers back until there is something to say.
        writing = asyncio.create_task(asyncio.to_thread(meanwhile))
        response = await _opened(client, exchange.build(request, longest))
        stream = Stream(Answer(response.status_code, response.headers.multi_items(), b""))
        if response.status_code != wanted["status"]:
            stream.head = Answer(response.status_code, response.headers.multi_items(), await response.aread())
        reading = asyncio.create_task(_read(response, stream))
        await writing
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                while not reading.done() and (wanted["ended_by"] == "server" or len(stream.lines) < count):
                    await asyncio.sleep(0.05)
        await asyncio.wait({reading}, timeout=SETTLE_SECONDS)
        stream.ended_by = "server" if reading.done() else "client"
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await response.aclose()
    stream.seconds = time.monotonic() - began
    return stream


async def _opened(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """A kind's storage may still be on its way: 429 is asked again, as a client should."""
    for _ in range(20):
        response = await client.send(request, stream=True)
        if response.status_code != 429:
            break
        await response.aclose()
        await asyncio.sleep(0.5)
    return response


async def _read(response: httpx.Response, stream: Stream) -> None:
    if response.is_stream_consumed:
        return
    async for line in response.aiter_lines():
        if line:
            stream.lines.append(line)


def judge(stream: Stream, wanted: dict[str, Any], comparison: Comparison) -> None:
    """Raises AssertionError."""
    texts = "lines" in wanted
    recorded = wanted["lines"] if texts else [each for each in wanted["events"] if not _is_plain_bookmark(each)]
    got = [_parsed(line, texts=texts) for line in stream.lines]
    got = [each for each in got if texts or not _is_plain_bookmark(each)]
    for index, (a, b) in enumerate(zip(recorded, got, strict=False)):
        whole = a.get("type") in ("ERROR", "BOOKMARK") or not comparison.part
        event = {key: value for key, value in a.items() if key != "_at"}
        compared = Comparison(
            part=not whole, any_order=comparison.any_order, own_words=comparison.own_words
        ).difference(event, b)
        assert compared is None, f"event {index}: {compared}"
    assert len(got) == len(recorded), f"{len(got)} events, not {len(recorded)}: {stream.lines[-1:]}"
    assert stream.ended_by == wanted["ended_by"], f"ended by {stream.ended_by} after {stream.seconds:.1f} s"
    if wanted["ended_by"] == "server" and "seconds" in wanted:
        # Times were measured once: only another order of magnitude is another answer.
        assert wanted["seconds"] * 0.6 - 0.5 <= stream.seconds <= wanted["seconds"] * 2 + 8, f"{stream.seconds:.1f} s"


def _parsed(line: str, *, texts: bool) -> Any:
    return json.loads(line) if line.startswith("{") and not texts else {"text": line}


def _is_plain_bookmark(event: Any) -> bool:
    """Those come when the server likes."""
    return event.get("type") == "BOOKMARK" and not pointed(event, "/object/metadata/annotations")
