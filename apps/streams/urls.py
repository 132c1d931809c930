"""The socket route, open to our own pages only."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import parse_cookie

from apps.streams.consumers import Message, Page, Receive, Send

PATH = "/ws/"


async def sockets(scope: Message, receive: Receive, send: Send) -> None:
    """Refuses a handshake whose Origin is not exactly ours: the cookie alone does not prove which page sent it."""
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if scope["path"] != PATH or origins != [settings.BASE_URL.encode()]:
        await receive()
        await send({"type": "websocket.close"})
        return
    session_key = _cookies(scope["headers"]).get(settings.SESSION_COOKIE_NAME, "")
    await Page(send).run(session_key, receive)


def _cookies(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    found: dict[str, Any] = parse_cookie("; ".join(v.decode("latin-1") for name, v in headers if name == b"cookie"))
    return found
