"""What handlers give back, and how it reaches the client over ASGI."""

from __future__ import annotations

import asyncio
import gzip
import uuid
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
COMPRESSED_FROM = 128 * 1024  # bytes
ON_EVERY_ANSWER = [
    (b"cache-control", b"no-cache, private"),
    # Nobody is made to wait here: all requests are of one flow, at one level.
    (b"x-kubernetes-pf-flowschema-uid", b"6b0cb0a8-8f6c-4a5f-9d0e-5e1f4c3a7d01"),
    (b"x-kubernetes-pf-prioritylevel-uid", b"6b0cb0a8-8f6c-4a5f-9d0e-5e1f4c3a7d02"),
]


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


async def send_answer(answer: Answer, asked: dict[str, str], receive: Receive, send: Send) -> None:
    """Write an answer to a request with these headers. A stream is written piece by piece, until the client goes."""
    headers = [(b"audit-id", asked.get("audit-id", "").encode("latin-1") or str(uuid.uuid4()).encode())]
    headers += ON_EVERY_ANSWER
    if answer.content_type:
        headers.append((b"content-type", answer.content_type.encode()))
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers]
    body = answer.body
    if len(body) > COMPRESSED_FROM and "gzip" in asked.get("accept-encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, 1)
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    if answer.stream is None and answer.status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": answer.stream is not None})
    if answer.stream is not None:
        await _stream(answer.stream, receive, send)


async def _stream(stream: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    writer = asyncio.create_task(_write(stream, send))
    leaver = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({writer, leaver}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaver.cancel()
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
