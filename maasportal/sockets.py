"""The server's side of a socket: uvicorn's own, which also takes frames that were made once for many pages."""

from __future__ import annotations

from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from apps.streams.domain.wire import WIRE


class Sockets(WebSocketsSansIOProtocol):
    """Offers itself to the application as a `Wire`."""

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
