"""A browser's socket against an ASGI application in the same event loop (channels.testing would need Daphne)."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator


class Socket(ApplicationCommunicator):
    def __init__(self, application: Any, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(application, {"type": "websocket", "path": "/ws/", "headers": headers, "subprotocols": []})

    async def connect(self) -> tuple[bool, int | None]:
        """Whether the handshake was accepted, else the close code."""
        await self.send_input({"type": "websocket.connect"})
        event = await self.receive_output(3)
        return event["type"] == "websocket.accept", event.get("code")

    async def send_json_to(self, message: Any) -> None:
        await self.send_input({"type": "websocket.receive", "text": json.dumps(message)})

    async def receive_json_from(self, timeout: float) -> Any:
        event = await self.receive_output(timeout)
        assert event["type"] == "websocket.send", event
        return json.loads(event["text"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(3)
