"""What handlers give back, and how it reaches the client over ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.apiserver.errors import PlainError, StatusError
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.store import Record, encode

Object = dict[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass
class Answer:
    """One answer; `stream` instead of `body` for one that goes on."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None


def record_json(kind: Kind, record: Record) -> bytes:
    """The whole JSON of a stored object."""
    return kind.prefix + record.raw


def object_json(kind: Kind, item: Object) -> bytes:
    """The JSON of an object that is not (yet) stored, with kind and apiVersion first."""
    return encode({"kind": kind.kind, "apiVersion": kind.api_version} | item)


def json_answer(body: Object, status: int = 200) -> Answer:
    return Answer(status, encode(body))


def error_answer(error: StatusError | PlainError) -> Answer:
    if isinstance(error, PlainError):
        return Answer(error.code, error.text.encode(), TEXT)
    return Answer(error.code, encode(error.status()) + b"\n", JSON, list(error.headers))


async def send_answer(answer: Answer, receive: Receive, send: Send) -> None:
    """Write an answer. A stream is written piece by piece and dropped when the client goes."""
    headers = [(b"content-type", answer.content_type.encode())] if answer.content_type else []
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers]
    if answer.stream is None:
        if answer.status != 204:
            headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    writer = asyncio.create_task(_write(answer.stream, send))
    leaver = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({writer, leaver}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaver.cancel()
        if not writer.done():
            writer.cancel()
    await asyncio.gather(writer, leaver, return_exceptions=True)
    if not writer.cancelled() and (error := writer.exception()):
        raise error


async def _write(stream: AsyncIterator[bytes], send: Send) -> None:
    async for piece in stream:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    """Return when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
