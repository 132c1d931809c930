"""The server's side of a socket: uvicorn's own, which also takes frames that were made once for many pages."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from apps.streams.domain.wire import WIRE

HANDSHAKES, EVERY_SECONDS = 3, 0.003
"""So many at once, and so long until the next: when all pages come back together, 2,000 do in two to three seconds, and
who asks for something else is served meanwhile."""

MOST_BYTES = 64 << 10
"""Of a socket that waits for its turn."""


class Handshakes:
    """Those of one event loop that wait for their turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Sockets] = deque()
        self._is_pausing = False

    def add(self, one: Sockets) -> None:
        self._waiting.append(one)
        if not self._is_pausing:
            self._go_on()

    def _go_on(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(HANDSHAKES, len(self._waiting)))]
        self._is_pausing = bool(some)
        if some:
            self.loop.call_later(EVERY_SECONDS, self._go_on)
        for one in some:
            self.loop.call_soon(one.shake_hands)


_handshakes: list[Handshakes] = []
"""That of the running loop (a web process has one)."""


def _handshakes_of(loop: asyncio.AbstractEventLoop) -> Handshakes:
    if not _handshakes or _handshakes[0].loop is not loop:
        _handshakes[:] = [Handshakes(loop)]
    return _handshakes[0]


class Sockets(WebSocketsSansIOProtocol):
    """Offers itself to the application as a `Wire`. Its handshake waits for its turn."""

    _request: bytes | None = None

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            super().data_received(data)
        elif self._request is None:
            self._request = data
            _handshakes_of(self.loop).add(self)
        elif len(self._request) + len(data) > MOST_BYTES:
            self.transport.close()  # no client speaks before it was answered
        else:
            self._request += data

    def shake_hands(self) -> None:
        if not self.disconnected and not self.transport.is_closing():
            super().data_received(self._request or b"")

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:  # it was not refused
            cast("dict[str, Any]", self.scope["extensions"])[WIRE] = self

    def put(self, frame: bytes) -> bool:
        if not self.writable.is_set() or self._is_gone():
            return False
        self.transport.write(frame)
        return True

    async def ready(self) -> None:
        await self.writable.wait()
        if self._is_gone():
            raise ClientDisconnected

    def _is_gone(self) -> bool:
        return self.disconnected or self.close_sent or self.transport.is_closing()
