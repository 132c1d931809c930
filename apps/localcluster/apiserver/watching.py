"""Watches: what is there, then every change, until the client, the time limit or the server's end.

A watcher holds no queue. It keeps the version it has sent and reads on in the store's history when the bell rings; one
that falls behind the history ends with 410 as a real server's does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.answers import Answer
from apps.localcluster.apiserver.errors import StatusError, gone
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.reading import check_list_options, reach
from apps.localcluster.apiserver.requests import TABLE, Request, number_of
from apps.localcluster.apiserver.selectors import Selector, selector_of
from apps.localcluster.apiserver.store import Event, Store, decode, encode
from apps.localcluster.apiserver.tables import table

Object = dict[str, Any]

SHORTEST_LIMIT = 1800  # seconds; a watch without timeoutSeconds lasts between this and twice this
BOOKMARK_SECONDS = 50.0
LAST_BOOKMARK = 1.2  # seconds before the end
BATCH_BYTES = 64_000


@dataclass
class Watch:
    """One open watch."""

    store: Store
    kind: Kind
    namespace: str
    selector: Selector
    bookmarks: bool
    seconds: float
    alive: Callable[[], bool]
    """False once the server is stopping or the kind is gone: the stream then ends without a word."""
    sent: int = 0
    initial: bool = False
    announce: bool = False
    """Whether a bookmark says that the initial events are complete."""
    table: Request | None = None
    """Set when every object is told as a table; the first one brings the columns."""
    columns_sent: bool = False

    async def lines(self) -> AsyncIterator[bytes]:
        """The stream: JSON events, one a line, several in a piece when they come together."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        next_bookmark = min(loop.time() + BOOKMARK_SECONDS, max(end - LAST_BOOKMARK, loop.time() + 0.5))
        bell = self.store.listen(self.kind.resource)
        try:
            if self.initial:
                for piece in self._initial():
                    yield piece
            while True:
                bell.clear()
                if self.sent < self.store.oldest:
                    yield self._error(gone(f"too old resource version: {self.sent} ({self.store.oldest})"))
                    return
                for piece in self._news():
                    yield piece
                now = loop.time()
                if now >= end or not self.alive():
                    return
                if self.bookmarks and now >= next_bookmark:
                    next_bookmark = min(now + BOOKMARK_SECONDS, end - LAST_BOOKMARK if now < end - 2 else end + 1)
                    yield self._bookmark()
                wake = min(end, next_bookmark) if self.bookmarks else end
                if not bell.is_set():
                    await _wait(bell, wake - now)
        finally:
            self.store.unlisten(self.kind.resource, bell)

    def _initial(self) -> Iterator[bytes]:
        self.sent = self.store.version
        records = self.store.select(self.kind.resource, self.namespace)
        lines = [self._line("ADDED", record.raw) for record in records if self.selector.matches(record)]
        if self.announce:
            lines.append(self._bookmark({"annotations": {"k8s.io/initial-events-end": "true"}}))
        return _batches(lines)

    def _news(self) -> Iterator[bytes]:
        events = self.store.events_after(self.sent, self.kind.resource)
        lines = [line for event in events if (line := self._event(event))]
        self.sent = self.store.version
        return _batches(lines)

    def _event(self, event: Event) -> bytes:
        """The line of one event, empty when the selector hides it."""
        if self.namespace and event.record.key[0] != self.namespace:
            return b""
        if self.selector.everything:
            return self._line(event.type, event.record.raw)
        before = event.before if event.before is not None and self.selector.matches(event.before) else None
        if event.type != "DELETED" and self.selector.matches(event.record):
            return self._line("MODIFIED" if before else "ADDED", event.record.raw)
        if before is None or event.type == "DELETED":
            return self._line("DELETED", event.record.raw) if before else b""
        # It left the selector: the client knows it by its old labels, at the version of the change.
        old = before.load()
        old["metadata"]["resourceVersion"] = str(event.record.version)
        return self._line("DELETED", encode(old)[1:])

    def _line(self, type_: str, raw: bytes) -> bytes:
        if self.table is not None:
            item = decode(self.kind.prefix + raw)
            version = {"resourceVersion": item["metadata"]["resourceVersion"]}
            rows = [] if type_ == "BOOKMARK" else [item]
            whole, self.columns_sent = not self.columns_sent, True
            return encode({"type": type_, "object": table(self.table, rows, version, columns=whole)}) + b"\n"
        return b'{"type":"' + type_.encode() + b'","object":' + self.kind.prefix + raw + b"}\n"

    def _bookmark(self, metadata: Object | None = None) -> bytes:
        body = {"metadata": {"resourceVersion": str(self.sent), **(metadata or {})}}
        return self._line("BOOKMARK", encode(body)[1:])

    def _error(self, error: StatusError) -> bytes:
        return b'{"type":"ERROR","object":' + encode(error.status()) + b"}\n"


async def _wait(bell: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            await bell.wait()
    except TimeoutError:
        pass


def _batches(lines: list[bytes]) -> Iterator[bytes]:
    """Join short lines, so that ten thousand objects are not ten thousand writes."""
    first = size = 0
    for index, line in enumerate(lines):
        size += len(line)
        if size >= BATCH_BYTES or index == len(lines) - 1:
            yield b"".join(lines[first : index + 1])
            first, size = index + 1, 0


async def watch(store: Store, request: Request, alive: Callable[[], bool]) -> Answer:
    """Open a watch on a collection. Raises StatusError before the stream begins."""
    check_list_options(request, watching=True)
    query, selector = request.query, selector_of(request.query, request.kind)
    wanted = query.get("resourceVersion", "")
    if wanted and not wanted.isdigit():
        why = f'Invalid value: "{wanted}": strconv.ParseUint: parsing "{wanted}": invalid syntax'
        raise StatusError(500, "", f"resourceVersion: {why}")
    version = int(wanted or 0)
    await reach(store, version)
    bookmarks, asked = request.flag("allowWatchBookmarks"), "sendInitialEvents" in query
    initial = request.flag("sendInitialEvents") if asked else version == 0
    stream = Watch(
        store,
        request.kind,
        request.namespace,
        selector,
        bookmarks,
        number_of(request, "timeoutSeconds") or random.uniform(SHORTEST_LIMIT, 2 * SHORTEST_LIMIT),  # noqa: S311
        alive,
        sent=version or store.version,
        initial=initial,
        announce=initial and bookmarks and (asked or not wanted),
        table=request if request.form == TABLE else None,
    )
    return Answer(200, stream=stream.lines())
