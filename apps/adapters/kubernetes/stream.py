"""Lists, watches and logs as raw bytes, for the watch process: aiohttp for the wire, msgspec for the fields asked for.

An API server sends each event as a chunk of its own; aiohttp takes chunks apart in C, many in one go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar, cast

import aiohttp
import msgspec

from apps.adapters.errors import OutsideError, Unavailable
from apps.adapters.kubernetes import answers, objects
from apps.adapters.kubernetes.endpoint import CONNECT_SECONDS, READ_SECONDS, Endpoint
from apps.adapters.kubernetes.pacing import Bucket

SILENCE_SECONDS = 60.0
"""A stream without a byte for this long is taken for dead (a half-open connection says nothing for ever)."""
WATCH_SECONDS = 50
"""The server ends a quiet watch before we would take it for dead; going on from the last version costs nothing."""
PAGE = 500
EVENT_LIMIT = 16 << 20
READ_BYTES = 256 << 10
JSON = "application/json"

T = TypeVar("T")


class Expired(Exception):
    """The version asked for is no longer kept: list again from nothing."""


class Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 (the API's name)
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None

    def label(self, name: str) -> str:
        return (self.labels or {}).get(name, "")


class Listed(msgspec.Struct):
    """An object of which only the metadata is wanted; projections of kinds inherit from it."""

    metadata: Meta


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct):
    gitVersion: str = ""  # noqa: N815


_PAGE = msgspec.json.Decoder(_Page)
_EVENT = msgspec.json.Decoder(_Event)
_LISTED = msgspec.json.Decoder(Listed)
_VERSION = msgspec.json.Decoder(_Version)


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; a bookmark has no object, only a version."""

    type: str
    version: str
    object: T | None


class StreamReader:
    """One API server, for one event loop. Raises the same errors as `KubeApi`, and Expired."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        # One thread a cluster: a secrets server that hangs must not hold up what is done for the others.
        self._tokens = ThreadPoolExecutor(1, "token")
        self._bucket = Bucket()
        self._http = aiohttp.ClientSession(
            headers={"User-Agent": objects.FIELD_MANAGER, "Accept-Encoding": "identity"},
            connector=aiohttp.TCPConnector(ssl=endpoint.tls() or False, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BYTES,
        )

    async def close(self) -> None:
        self._tokens.shutdown(wait=False, cancel_futures=True)
        await self._http.close()

    async def version(self) -> str:
        """The server's version; a cheap sign of life."""
        return (await self._read("/version", [], _VERSION)).gitVersion

    async def listing(
        self, path: str, decoder: msgspec.json.Decoder[T], *, label_selector: str = ""
    ) -> tuple[list[T], str]:
        """All objects and the version to watch from. An object that does not fit the projection is left out."""
        found: list[T] = []
        token = ""
        while True:
            query = objects.query(label_selector=label_selector, limit=PAGE, continue_=token)
            page = await self._read(objects.checked(path), query, _PAGE, _form(decoder, "PartialObjectMetadataList"))
            found += [item for raw in page.items or [] if (item := _decoded(decoder, raw)) is not None]
            token = page.metadata.continue_
            if not token:
                return found, page.metadata.resourceVersion

    async def watch(
        self, path: str, version: str, decoder: msgspec.json.Decoder[T], *, label_selector: str = ""
    ) -> AsyncGenerator[Event[T]]:
        """Events after `version` until the server ends the stream. Raises Expired for a 410 of either form."""
        query = objects.query(
            label_selector=label_selector,
            watch=True,
            bookmarks=True,
            resource_version=version,
            timeout_seconds=WATCH_SECONDS,
        )
        whole = _whole(cast("Hashable", decoder.type))
        form = _form(decoder, "PartialObjectMetadata")
        async with self._stream(objects.checked(path), query, accept=form) as response:
            rest = b""
            async for chunk in _chunks(response, SILENCE_SECONDS):
                lines, rest = _lines(rest, chunk)
                for line in lines:
                    yield _event(line, whole, path)

    async def log(self, path: str, container: str, **params: str | int | bool) -> AsyncGenerator[bytes]:
        """The log of a container as chunks of any size; `path` is the pod's. Nothing at all when it has no node yet.

        `params`: follow, previous, since_time, tail_lines, timestamps. Raises NodeGone too.
        """
        query = objects.query(container=container, **params)
        silence = SILENCE_SECONDS if params.get("follow") else READ_SECONDS
        async with self._stream(f"{objects.checked(path)}/log", query, silence) as response:
            async for chunk in _chunks(response, silence):
                yield chunk

    async def metadata(self, path: str) -> Meta:
        """The metadata of one object. Raises NotFound."""
        return (await self._read(objects.checked(path), [], _LISTED)).metadata

    async def _read(
        self, path: str, query: list[tuple[str, str]], decoder: msgspec.json.Decoder[T], accept: str = JSON
    ) -> T:
        async with self._stream(path, query, READ_SECONDS, accept) as response:
            return decoder.decode(await _body(response))

    @asynccontextmanager
    async def _stream(
        self, path: str, query: list[tuple[str, str]], silence: float = SILENCE_SECONDS, accept: str = JSON
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            response = await self._opened(path, query, silence, accept)
            try:
                yield response
            finally:
                response.close()  # what was read to its end has given its connection back by now
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            text = f"The API server's stream broke ({type(error).__name__}): {error}"
            raise Unavailable(answers.cut(text)) from error

    async def _opened(
        self, path: str, query: list[tuple[str, str]], silence: float, accept: str
    ) -> aiohttp.ClientResponse:
        """Open a stream with the token at hand, or once more with a newer one; raise what a refusal stands for."""
        await asyncio.sleep(self._bucket.reserve())
        ask = partial(self._send, path, query, silence, accept)
        token = await self._token(fresh=False)
        response = await ask(token)
        if response.status // 100 == 2:
            return response
        answer = await _refusal(response, path)
        if answers.is_credential_fault(answer):
            newer = await self._token(fresh=True)
            if newer != token:
                response = await ask(newer)
                if response.status // 100 == 2:
                    return response
                answer = await _refusal(response, path)
        if answer.code == 410:
            raise Expired
        self._bucket.heed(answer)
        raise answers.failure(answer)

    async def _token(self, *, fresh: bool) -> str:
        ask = partial(self._endpoint.token_source, fresh=fresh)
        return await asyncio.get_running_loop().run_in_executor(self._tokens, ask)

    async def _send(
        self, path: str, query: list[tuple[str, str]], silence: float, accept: str, token: str
    ) -> aiohttp.ClientResponse:
        return await self._http.get(
            self._endpoint.server.rstrip("/") + path,
            params=query,
            headers={"Authorization": f"Bearer {token}", "Accept": accept},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence),
        )


def _form(decoder: msgspec.json.Decoder[T], name: str) -> str:
    """What to ask for: of objects of which only the metadata is read, no more than that. A server that does not know
    the form sends whole objects."""
    fields = cast("type[msgspec.Struct]", decoder.type).__struct_fields__
    return f"{JSON};as={name};g=meta.k8s.io;v=v1,{JSON}" if fields == ("metadata",) else JSON


@lru_cache(maxsize=64)
def _whole(kind: Hashable) -> msgspec.json.Decoder[Any]:
    """Reads an event and its object, of this type, in one go."""
    return msgspec.json.Decoder(msgspec.defstruct("_Whole", [("type", str), ("object", kind)]))


def _event(line: bytes, whole: msgspec.json.Decoder[Any], path: str) -> Event[Any]:
    try:
        event = whole.decode(line)
    except msgspec.ValidationError:  # a refusal, or an odd object
        raw = _EVENT.decode(line)
        if raw.type == "ERROR":
            raise _in_stream(bytes(raw.object), path) from None
        return Event(raw.type, _LISTED.decode(raw.object).metadata.resourceVersion, None)
    if event.type == "ERROR":
        raise _in_stream(bytes(_EVENT.decode(line).object), path)
    version = event.object.metadata.resourceVersion
    return Event(event.type, version, None if event.type == "BOOKMARK" else event.object)


def _in_stream(body: bytes, path: str) -> Exception:
    """A refusal inside a stream that began with 200."""
    status: dict[str, Any] = msgspec.json.decode(body)
    code = int(status.get("code") or 500)
    failure: OutsideError = answers.failure(answers.read(code, {}, body, path))
    return Expired() if code == 410 else failure


def _decoded(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw) -> T | None:
    """The projection, or None: one odd object must not hide all others."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return None


async def _refusal(response: aiohttp.ClientResponse, path: str) -> answers.Answer:
    try:
        return answers.read(response.status, response.headers, await _body(response), path)
    finally:
        response.close()


async def _body(response: aiohttp.ClientResponse) -> bytes:
    return b"".join([chunk async for chunk in _chunks(response, READ_SECONDS)])


async def _chunks(response: aiohttp.ClientResponse, silence: float) -> AsyncIterator[bytes]:
    """What came since the last one. Where a body stops being HTTP, aiohttp forgets its own limit of silence."""
    while True:
        async with asyncio.timeout(silence):
            chunk = await response.content.readany()
        if not chunk:
            return
        yield chunk


def _lines(rest: bytes, chunk: bytes) -> tuple[Iterator[bytes], bytes]:
    """The complete lines, and the beginning of one; one that never ends is refused before it fills the memory."""
    *lines, rest = (rest + chunk).split(b"\n")
    if len(rest) > EVENT_LIMIT:
        raise Unavailable("The API server sent an event without end.")
    return filter(bytes.strip, lines), rest
